//! A bar chart for a terminal.

/// Characters that fill the bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Unicode's blocks, down to an eighth of a column.
    Blocks,
    /// `#`, for terminals that know no more.
    Ascii,
}

const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Columns that a bar needs to show anything.
const NARROWEST: usize = 10;

/// One line for each bar: its label, the bar to scale, its value as a whole number. `width` columns
/// in all, but at least 10 for the longest bar.
pub(crate) fn chart(bars: &[(String, f64)], width: usize, ink: Ink) -> String {
    let label_width = widest(bars.iter().map(|(label, _)| label.as_str()));
    let values: Vec<String> = bars
        .iter()
        .map(|(_, value)| format!("{value:.0}"))
        .collect();
    let value_width = widest(values.iter().map(String::as_str));
    let room = width.saturating_sub(label_width + value_width + 4);
    let room = room.max(NARROWEST);
    let longest = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut text = String::new();
    for ((label, value), number) in bars.iter().zip(values) {
        let part = if longest > 0.0 { value / longest } else { 0.0 };
        let bar = bar(part.clamp(0.0, 1.0) * room as f64, ink);
        let line = format!("{label:<label_width$}  {bar:<room$}  {number:>value_width$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// A bar of `columns` columns; what is there at all shows.
fn bar(columns: f64, ink: Ink) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "columns of a terminal, not negative"
    )]
    let eighths = ((columns * 8.0).round() as usize).max(1);
    match ink {
        Ink::Ascii => "#".repeat(eighths.div_ceil(8)),
        Ink::Blocks => {
            let mut bar = EIGHTHS[0].to_string().repeat(eighths / 8);
            if !eighths.is_multiple_of(8) {
                bar.push(EIGHTHS[eighths % 8]);
            }
            bar
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: &[(&str, f64)]) -> Vec<(String, f64)> {
        let owned = values
            .iter()
            .map(|(label, value)| ((*label).to_owned(), *value));
        owned.collect()
    }

    #[test]
    fn bars_are_to_scale() {
        let bars = bars(&[("memcpy", 200.0), ("aes", 100.4), ("slow", 1.0)]);
        let wanted = "\
memcpy  ████████████████████  200
aes     ██████████            100
slow    ▏                       1
";
        // The label 6, the bar 20, the value 3, and two spaces between.
        assert_eq!(chart(&bars, 33, Ink::Blocks), wanted);
        let wanted = "\
memcpy  ####################  200
aes     ##########            100
slow    #                       1
";
        assert_eq!(chart(&bars, 33, Ink::Ascii), wanted);
    }

    #[test]
    fn narrow_terminals_and_nothing_at_all() {
        let bars = bars(&[("a", 0.0), ("b", 0.0)]);
        assert_eq!(
            chart(&bars, 0, Ink::Ascii),
            "a  #           0\nb  #           0\n"
        );
        assert_eq!(chart(&[], 80, Ink::Blocks), "");
    }
}
