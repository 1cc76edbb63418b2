//! Changing names, flags, priorities and tokens.

use serde_json::{Map, Value, json};

use super::limits::MAX_TOKENS;
use super::{Header, metadata};
use crate::document::member;
use crate::edit::Edit;
use crate::error::EditError;
use crate::flag::Flag;
use crate::keyslot::Priority;
use crate::uuid;

impl Header {
    /// Makes one change, without a new sequence number.
    pub(crate) fn edit(&mut self, edit: &Edit) -> Result<(), EditError> {
        match edit {
            Edit::Uuid(given) => {
                self.binary.uuid = uuid::given_or_random(given.as_deref(), EditError::Uuid)?;
            }
            Edit::Label(label) => self.binary.label.clone_from(label),
            Edit::Subsystem(subsystem) => self.binary.subsystem.clone_from(subsystem),
            Edit::Flags(flags) => self.set_flags(flags)?,
            Edit::Priority { slot, priority } => self.set_priority(*slot, *priority)?,
            Edit::AddToken { id, token } => match self.check_token(*id) {
                Err(EditError::NoSuchToken { .. }) => self.set_token(*id, token)?,
                Ok(()) => return Err(EditError::TokenInUse { id: *id }),
                Err(error) => return Err(error),
            },
            Edit::ReplaceToken { id, token } => {
                self.check_token(*id)?;
                self.set_token(*id, token)?;
            }
            Edit::RemoveToken { id } => {
                self.check_token(*id)?;
                self.change_document(|document| {
                    if let Some(tokens) = member(document, "tokens") {
                        tokens.shift_remove(&id.to_string());
                    }
                })?;
            }
            Edit::AssignToken { id, slot } => self.change_mention(*id, *slot, true)?,
            Edit::UnassignToken { id, slot } => self.change_mention(*id, *slot, false)?,
        }
        Ok(())
    }

    pub(crate) fn free_token(&self) -> Option<u8> {
        let taken = |id: u8| self.metadata.tokens.iter().any(|token| token.id == id);
        (0..MAX_TOKENS).find(|&id| !taken(id))
    }

    fn set_flags(&mut self, flags: &[Flag]) -> Result<(), EditError> {
        let stored = self.metadata.flags.iter();
        let unknown = stored.filter(|name| Flag::from_name(name).is_none());
        let mut names: Vec<Value> = unknown.map(|name| json!(name)).collect();
        for flag in Flag::ALL.iter().filter(|flag| flags.contains(flag)) {
            names.push(json!(flag.name()));
        }
        self.change_document(|document| set_or_remove(member(document, "config"), "flags", names))?;
        Ok(())
    }

    fn set_priority(&mut self, slot: u8, priority: Priority) -> Result<(), EditError> {
        self.check_slot(slot)?;
        self.change_document(|document| {
            let keyslots = member(document, "keyslots");
            let keyslot = keyslots.and_then(|all| member(all, &slot.to_string()));
            if let Some(keyslot) = keyslot {
                match priority {
                    Priority::Ignore => keyslot.insert("priority".to_owned(), json!(0)),
                    Priority::Normal => keyslot.shift_remove("priority"),
                    Priority::Prefer => keyslot.insert("priority".to_owned(), json!(2)),
                };
            }
        })?;
        Ok(())
    }

    fn set_token(&mut self, id: u8, token: &Value) -> Result<(), EditError> {
        metadata::check_token(token).map_err(EditError::Token)?;
        self.change_document(|document| {
            if let Some(tokens) = member(document, "tokens") {
                tokens.insert(id.to_string(), token.clone());
            }
        })?;
        Ok(())
    }

    fn change_mention(&mut self, id: u8, slot: u8, mention: bool) -> Result<(), EditError> {
        self.check_token(id)?;
        self.check_slot(slot)?;
        self.change_document(|document| {
            let token = member(document, "tokens").and_then(|all| member(all, &id.to_string()));
            let keyslots = token.and_then(|token| token.get_mut("keyslots"));
            if let Some(Value::Array(keyslots)) = keyslots {
                keyslots.retain(|named| named.as_str() != Some(&slot.to_string()));
                if mention {
                    keyslots.push(json!(slot.to_string()));
                }
            }
        })?;
        Ok(())
    }

    fn check_token(&self, id: u8) -> Result<(), EditError> {
        if id >= MAX_TOKENS {
            return Err(EditError::TokenNumber { id });
        }
        let mut tokens = self.metadata.tokens.iter();
        let found = tokens.any(|token| token.id == id);
        found.then_some(()).ok_or(EditError::NoSuchToken { id })
    }

    fn check_slot(&self, slot: u8) -> Result<(), EditError> {
        let mut keyslots = self.metadata.keyslots.iter();
        let found = keyslots.any(|keyslot| keyslot.id == slot);
        found.then_some(()).ok_or(EditError::UnusedKeyslot { slot })
    }
}

/// Sets a list, which is left out where it is empty.
fn set_or_remove(object: Option<&mut Map<String, Value>>, name: &str, list: Vec<Value>) {
    let Some(object) = object else { return };
    if list.is_empty() {
        object.shift_remove(name);
    } else {
        object.insert(name.to_owned(), Value::Array(list));
    }
}
