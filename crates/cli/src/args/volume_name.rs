//! Names of open volumes.

/// The name of an open volume, checked: 1 to 64 of the characters that device mapper's names have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeName(String);

impl VolumeName {
    /// Returns whether names may have this character.
    pub(crate) fn allows(character: char) -> bool {
        character.is_ascii_alphanumeric() || "#+-.:=@_".contains(character)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for VolumeName {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.is_empty()
            || name.len() > 64
            || name.starts_with('.')
            || !name.chars().all(Self::allows)
        {
            return Err(
                "a name has 1 to 64 letters, digits or #+-.:=@_ and does not start with a dot",
            );
        }
        Ok(Self(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_folder() {
        for name in [
            "",
            ".",
            "..",
            ".x",
            "a/b",
            "a b",
            "ä",
            &"x".repeat(65),
            "a\n",
        ] {
            assert!(name.parse::<VolumeName>().is_err(), "{name:?}");
        }
        for name in ["secret", "a.b", "luks-0b1c", "x@y=z#1+2:3_4"] {
            assert!(name.parse::<VolumeName>().is_ok(), "{name:?}");
        }
    }
}
