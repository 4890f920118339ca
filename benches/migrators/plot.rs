//! Plots, as SVG by hand: lines of points in a frame.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 60.0;
const COLORS: [&str; 6] = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"];

/// A line and its name.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot of lines from the origin on.
pub(crate) fn svg(title: &str, x: &str, y: &str, lines: &[Line]) -> String {
    let most =
        |of: fn(&(f64, f64)) -> f64| lines.iter().flat_map(|it| &it.points).map(of).fold(1e-9, f64::max);
    let (x_max, y_max) = (most(|it| it.0), most(|it| it.1));
    let across = |value: f64| MARGIN + value / x_max * (WIDTH - 2.0 * MARGIN);
    let down = |value: f64| HEIGHT - MARGIN - value / y_max * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"15\">{title}</text>\n\
         <path d=\"M{MARGIN} {MARGIN} V{bottom} H{right}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"{right}\" y=\"{below}\" text-anchor=\"end\">{x}: {x_max:.0}</text>\n\
         <text x=\"{MARGIN}\" y=\"{above}\">{y}: {y_max:.0}</text>\n",
        bottom = HEIGHT - MARGIN,
        right = WIDTH - MARGIN,
        below = HEIGHT - MARGIN + 18.0,
        above = MARGIN - 8.0,
    );
    for (line, (Line { name, points }, color)) in lines.iter().zip(COLORS.iter().cycle()).enumerate() {
        let points: Vec<_> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", across(*x), down(*y))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>\n\
             <text x=\"{}\" y=\"{}\" fill=\"{color}\">{name}</text>",
            points.join(" "),
            WIDTH - 2.6 * MARGIN,
            HEIGHT - MARGIN - 18.0 * (line as f64 + 1.0),
        );
    }
    svg + "</svg>\n"
}
