//! The address of a server as a QR code, which a telephone's camera reads from a terminal.

use std::io::{IsTerminal, stdout};

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use crate::terminal::progress::columns;

/// Draws the first URL that leads to this machine from others; `None` if standard output is not a terminal that is wide
/// enough, or all URLs are for this machine only.
pub(crate) fn for_terminal(urls: &[String]) -> Option<String> {
    if !stdout().is_terminal() {
        return None;
    }
    draw(reachable(urls)?, columns(stdout()))
}

/// The first URL whose host is not this machine's own name for itself.
fn reachable(urls: &[String]) -> Option<&str> {
    let is_reachable = |url: &&str| {
        let (_, rest) = url.split_once("://").unwrap_or_default();
        !["localhost", "127.", "[::1]"]
            .iter()
            .any(|own| rest.starts_with(own))
    };
    urls.iter().map(String::as_str).find(is_reachable)
}

/// Draws text by half blocks, two rows of the code in each line. Light parts are drawn and dark ones are left out, since
/// most terminals are dark; cameras read both.
fn draw(text: &str, columns: usize) -> Option<String> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L).ok()?;
    let mut drawing = code
        .render::<Dense1x2>()
        .dark_color(Dense1x2::Light)
        .light_color(Dense1x2::Dark)
        .build();
    drawing.push('\n');
    let width = drawing.lines().map(|line| line.chars().count()).max()?;
    (width <= columns).then_some(drawing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_for_others_is_drawn() {
        let urls = |urls: &[&str]| urls.iter().map(|&url| url.to_owned()).collect::<Vec<_>>();
        let own = [
            "https://localhost:8443/",
            "http://127.0.0.2:9180/",
            "http://[::1]:80/",
        ];
        assert_eq!(reachable(&urls(&own)), None);
        let both = urls(&[
            own[0],
            "https://192.0.2.1:8443/",
            "https://[2001:db8::1]:8443/",
        ]);
        assert_eq!(reachable(&both), Some("https://192.0.2.1:8443/"));
    }

    #[test]
    fn a_code_is_square_and_needs_a_terminal_of_its_width() {
        let drawing = draw("https://192.0.2.1:8443/", 80).unwrap();
        let widths: Vec<_> = drawing.lines().map(|line| line.chars().count()).collect();
        // Version 2 has 25 modules in each direction, and four light ones around them.
        assert_eq!(widths, vec![33; 17]);
        assert!(
            drawing
                .chars()
                .all(|char| " \u{2580}\u{2584}\u{2588}\n".contains(char))
        );
        assert!(drawing.starts_with('\u{2588}'), "the margin is light");
        assert_eq!(draw("https://192.0.2.1:8443/", 32), None);
    }
}
