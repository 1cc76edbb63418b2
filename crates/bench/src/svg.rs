//! A line chart as SVG, for documents and reports: it needs nothing but a browser, and follows its light
//! or dark scheme.

use std::fmt::Write;

use scrim_foreign::Html;

/// A chart of some lines over the same places, which lie evenly beside each other.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Title above the chart.
    pub title: String,
    /// Meaning of the places.
    pub x_label: String,
    /// Meaning of the values.
    pub y_label: String,
    /// The places, from left to right.
    pub places: Vec<String>,
    /// Lines, at most as many as there are [colours](COLOURS).
    pub lines: Vec<Line>,
    /// Values between which all is well.
    pub band: Option<(f64, f64)>,
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name for the legend.
    pub name: String,
    /// One point for each place; `None` where nothing is known.
    pub points: Vec<Option<Point>>,
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Value that the line goes through.
    pub value: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end of its interval.
    pub high: f64,
}

/// Lines' colours: on light ground, on dark ground.
pub const COLOURS: [(&str, &str); 4] = [
    ("#0b63c5", "#6cb0ff"),
    ("#b3470b", "#ffa266"),
    ("#1a7f37", "#57d374"),
    ("#7a3fb0", "#c79bff"),
];

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// Edges of the picture within the axes.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 300.0;
/// Most values named at the axis.
const TICKS: f64 = 7.0;

impl LineChart {
    /// The picture as SVG text.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        self.head(&mut svg);
        let scale = Scale::over(self);
        self.axes(&mut svg, &scale);
        for (index, line) in self.lines.iter().enumerate() {
            self.line(&mut svg, &scale, index, line);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn head(&self, svg: &mut String) {
        let (mut light, mut dark) = (String::new(), String::new());
        for (index, (on_light, on_dark)) in COLOURS.iter().enumerate() {
            let _ = write!(light, ".c{index}{{stroke:{on_light};fill:{on_light}}}");
            let _ = write!(dark, ".c{index}{{stroke:{on_dark};fill:{on_dark}}}");
        }
        let title = Html::new(&self.title);
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{title}</title>\n<style>\
             .ground{{fill:#fff}}text{{fill:#1f2328}}.rule{{stroke:#d1d9e0}}.band{{fill:#dafbe1}}\
             {light}\n\
             @media(prefers-color-scheme:dark){{.ground{{fill:#0d1117}}text{{fill:#e6edf3}}\
             .rule{{stroke:#3d444d}}.band{{fill:#12361f}}{dark}}}\n\
             .c0,.c1,.c2,.c3{{stroke-width:2}}.path{{fill:none}}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"600\">{title}</text>\n"
        );
    }

    fn axes(&self, svg: &mut String, scale: &Scale) {
        if let Some((low, high)) = self.band {
            let (top, bottom) = (scale.y(high), scale.y(low));
            let _ = writeln!(
                svg,
                "<rect class=\"band\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                RIGHT - LEFT,
                bottom - top
            );
        }
        for tick in scale.ticks() {
            let y = scale.y(tick);
            let _ = writeln!(
                svg,
                "<path class=\"rule\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                scale.name(tick)
            );
        }
        for (index, place) in self.places.iter().enumerate() {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                scale.x(index),
                BOTTOM + 20.0,
                Html::new(place)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            HEIGHT - 14.0,
            Html::new(&self.x_label),
            f64::midpoint(TOP, BOTTOM),
            Html::new(&self.y_label)
        );
    }

    fn line(&self, svg: &mut String, scale: &Scale, index: usize, line: &Line) {
        let colour = index % COLOURS.len();
        let (mut path, mut marks, mut drawing) = (String::new(), String::new(), false);
        for (place, point) in line.points.iter().enumerate().take(self.places.len()) {
            let Some(point) = point else {
                drawing = false;
                continue;
            };
            let (x, y) = (scale.x(place), scale.y(point.value));
            let _ = write!(path, "{}{x:.1} {y:.1}", if drawing { 'L' } else { 'M' });
            drawing = true;
            let (low, high) = (scale.y(point.low), scale.y(point.high));
            let _ = write!(
                marks,
                "<path class=\"c{colour}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>\
                 <circle class=\"c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            );
        }
        let legend = LEFT + index as f64 * (RIGHT - LEFT) / self.lines.len() as f64;
        let _ = writeln!(
            svg,
            "<path class=\"c{colour} path\" d=\"{path}\"/>{marks}\n\
             <path class=\"c{colour}\" d=\"M{legend:.1} 44h20\"/>\
             <text x=\"{:.1}\" y=\"48\">{}</text>",
            legend + 28.0,
            Html::new(&line.name)
        );
    }
}

/// Maps values to places in the picture; values begin at zero, so that heights compare.
struct Scale {
    places: usize,
    step: f64,
    top: f64,
}

impl Scale {
    fn over(chart: &LineChart) -> Self {
        let points = chart
            .lines
            .iter()
            .flat_map(|line| line.points.iter().flatten());
        let band = chart.band.map_or(0.0, |(_, high)| high);
        let highest = points
            .map(|point| point.high.max(point.value))
            .fold(band, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        // 1, 2 or 5 times a power of ten.
        let rough = highest / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        Self {
            places: chart.places.len(),
            step,
            top: (highest / step).ceil() * step,
        }
    }

    fn x(&self, place: usize) -> f64 {
        LEFT + (place as f64 + 0.5) * (RIGHT - LEFT) / self.places as f64
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - value.clamp(0.0, self.top) / self.top * (BOTTOM - TOP)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few, not negative"
        )]
        let count = (self.top / self.step).round() as u32;
        (0..=count).map(|tick| f64::from(tick) * self.step)
    }

    /// Label of a tick, with as many digits as steps differ in.
    fn name(&self, tick: f64) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 9"
        )]
        let digits = (-self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        format!("{tick:.digits$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: f64) -> Option<Point> {
        Some(Point {
            value,
            low: value - 0.1,
            high: value + 0.1,
        })
    }

    fn chart(points: Vec<Option<Point>>) -> LineChart {
        LineChart {
            title: "a < b & c".to_owned(),
            x_label: "size".to_owned(),
            y_label: "cost".to_owned(),
            places: points.iter().map(|_| "here".to_owned()).collect(),
            lines: vec![Line {
                name: "processor".to_owned(),
                points,
            }],
            band: Some((0.9, 1.1)),
        }
    }

    #[test]
    fn a_chart_has_its_lines_and_its_words() {
        let svg = chart(vec![point(1.0), point(0.5), point(1.0)]).to_svg();
        assert!(svg.contains("<title>a &lt; b &amp; c</title>"), "{svg}");
        assert!(svg.contains(">processor</text>") && svg.contains(">cost</text>"));
        assert!(svg.contains("prefers-color-scheme:dark"));
        // To 1.2, by steps of 0.2: 1.0 is at 300 − 236 / 1.2.
        assert!(
            svg.contains(">1.2</text>") && !svg.contains(">1.4</text>"),
            "{svg}"
        );
        assert!(
            svg.contains("M170.0 103.3L382.0 201.7L594.0 103.3"),
            "{svg}"
        );
        let opened = svg.matches('<').count() - svg.matches("</").count();
        let closed = svg.matches("</").count() + svg.matches("/>").count();
        assert_eq!(opened, closed, "{svg}");
    }

    #[test]
    fn where_nothing_is_known_the_line_is_broken() {
        let svg = chart(vec![point(1.0), None, point(1.0)]).to_svg();
        assert!(svg.contains("M170.0 103.3M594.0 103.3"), "{svg}");
        assert!(!chart(vec![]).to_svg().contains("NaN"));
        assert!(!chart(vec![None]).to_svg().contains("NaN"));
    }

    #[test]
    fn the_axis_has_round_numbers() {
        for (highest, top, step) in [(7.3, 8.0, 2.0), (0.031, 0.035, 0.005), (99.0, 100.0, 20.0)] {
            let points = vec![Some(Point {
                value: highest,
                low: highest,
                high: highest,
            })];
            let mut chart = chart(points);
            chart.band = None;
            let scale = Scale::over(&chart);
            assert!((scale.top - top).abs() < 1e-9 && (scale.step - step).abs() < 1e-9);
        }
    }
}
