//! A curve over the share of members that lie, as SVG.

use core::fmt::Write as _;

/// Size of the picture and of its margin.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 56.0;
/// What is drawn, and in what colour.
const LINES: [(&str, &str); 2] = [
    ("lookups that were right", "#1f6fb2"),
    ("messages that arrived", "#c2571a"),
];
/// Distances between lines of the grid: of the shares of liars in percent, and of the results.
const STEP_LIARS: usize = 5;
const STEPS_DOWN: usize = 10;

/// Draws both results, shares, at each share of liars in percent.
pub(super) fn draw(title: &str, points: &[(f64, [f64; 2])]) -> String {
    let most = points.iter().map(|(liars, _)| *liars).fold(1.0, f64::max);
    let worst = points.iter().flat_map(|(_, shares)| *shares).fold(1.0, f64::min);
    // The grid begins at the tenth below the worst point.
    let low = ((worst * 10.0).ceil() - 1.0).max(0.0) / 10.0;
    let x = |liars: f64| MARGIN + liars / most * (WIDTH - 2.0 * MARGIN);
    let y = |share: f64| HEIGHT - MARGIN - (share - low) / (1.0 - low) * (HEIGHT - 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"14\">{title}</text>\n"
    );
    let mut write = |text: String| out.write_str(&text).expect("memory suffices");
    for step in 0..=STEPS_DOWN {
        let share = low + (1.0 - low) * step as f64 / STEPS_DOWN as f64;
        let (at, end) = (y(share), WIDTH - MARGIN);
        write(format!("<path d=\"M{MARGIN} {at:.1}H{end}\" stroke=\"#ddd\"/>\n"));
        write(format!("<text x=\"8\" y=\"{:.1}\">{share:.3}</text>\n", at + 4.0));
    }
    for liars in (0..=most as usize).step_by(STEP_LIARS) {
        let (at, bottom) = (x(liars as f64), HEIGHT - MARGIN + 18.0);
        write(format!(
            "<text x=\"{at:.1}\" y=\"{bottom}\" text-anchor=\"middle\">{liars} %</text>\n"
        ));
    }
    for (line, (name, colour)) in LINES.iter().enumerate() {
        let way: Vec<String> = points
            .iter()
            .map(|(liars, shares)| format!("{:.1},{:.1}", x(*liars), y(shares[line])))
            .collect();
        let way = way.join(" ");
        write(format!(
            "<polyline points=\"{way}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"
        ));
        let (from, at) = (MARGIN + 200.0 * line as f64, HEIGHT - 12.0);
        write(format!(
            "<text x=\"{from}\" y=\"{at}\" fill=\"{colour}\">{name}</text>\n"
        ));
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_points() {
        let svg = draw("t", &[(0.0, [1.0, 1.0]), (30.0, [0.9, 0.75])]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("points=\"56.0,56.0 584.0,"));
        assert_eq!(svg.matches("<polyline").count(), LINES.len());
    }
}
