//! The ratios as a chart: one group of bars for each program, on a logarithmic scale, in one file that needs nothing.

use super::candidate::Candidate;
use super::page::{millis, ratio};
use super::results::{LatencyRow, Results};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
/// Where bars begin, and where they end at the latest: what is written beside them needs room.
const LEFT: f64 = 190.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 74.0;
const BAR: f64 = 14.0;
const ROW: f64 = 20.0;
const GROUP: f64 = 40.0;
const FOOT: f64 = 56.0;

/// Colours for light and dark, and nothing from elsewhere.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#24292f;stroke:#fff;stroke-width:3px;paint-order:stroke}
.title{font-size:17px;font-weight:600}.group{font-weight:600}.quiet{fill:#57606a}.axis{fill:#57606a;text-anchor:middle}
.grid{stroke:#d0d7de}.one{stroke:#57606a}.paper{fill:#fff}
.bare{fill:#6e7781}.peer{fill:#b08a5b}.ours{fill:#4c8ed9}.warm{fill:#1a7f37}
@media(prefers-color-scheme:dark){text{fill:#e6edf3;stroke:#0d1117}.quiet,.axis{fill:#9198a1}.grid{stroke:#30363d}.one{stroke:#9198a1}
.paper{fill:#0d1117}.bare{fill:#8b949e}.peer{fill:#c9a26d}.ours{fill:#58a6ff}.warm{fill:#3fb950}}";

pub(crate) fn draw(results: &Results) -> String {
    let groups: Vec<&[LatencyRow]> = results.latency.chunk_by(|a, b| a.program == b.program).collect();
    let scale = Scale::of(results.latency.iter().map(|row| row.ratio_to_bare));
    let bottom = TOP + groups.iter().map(|rows| GROUP + rows.len() as f64 * ROW).sum::<f64>();
    let height = bottom + FOOT;
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\"><title>Time of one run, the bare command being 1</title>\
         <style>{STYLE}</style><rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>"
    );
    text(&mut svg, 24.0, 32.0, "title", "Time of one run, the bare command being 1");
    text(&mut svg, 24.0, 52.0, "quiet", "Median, logarithmic scale: a tenth as long is one step to the left");
    for decade in scale.first..=scale.last {
        let at = scale.x(10f64.powi(decade));
        let class = if decade == 0 { "one" } else { "grid" };
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
        );
        text(&mut svg, at, bottom + 16.0, "axis", &format!("{}×", 10f64.powi(decade)));
    }
    let mut y = TOP;
    for rows in groups {
        text(&mut svg, 24.0, y + 24.0, "group", rows[0].title);
        y += GROUP - 8.0;
        for row in rows {
            bar(&mut svg, &scale, y, row);
            y += ROW;
        }
        y += 8.0;
    }
    let machine = &results.machine;
    let foot = format!(
        "{} rounds, {}, {} processors, kernel {}",
        results.rounds, machine.date, machine.processors, machine.kernel
    );
    text(&mut svg, 24.0, height - 14.0, "quiet", &foot);
    svg + "</svg>\n"
}

fn bar(svg: &mut String, scale: &Scale, y: f64, row: &LatencyRow) {
    let class = match row.candidate {
        Candidate::Bare => "bare",
        Candidate::Warm => "warm",
        other if other.is_ours() => "ours",
        _ => "peer",
    };
    let end = scale.x(row.ratio_to_bare);
    let base = y + BAR - 3.0;
    text(svg, 36.0, base, "", row.by);
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
        end - LEFT
    );
    let (ratio, time) = (ratio(row.ratio_to_bare), millis(row.times.p50_ms));
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{base:.1}\">{ratio}×<tspan class=\"quiet\" dx=\"8\">{time}</tspan></text>",
        end + 6.0
    );
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = write!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(words));
}

fn escaped(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&apos;",
            // What XML has no place for.
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Whole powers of ten around all values, and at least the one below 1 and the one above.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>) -> Scale {
        let logs: Vec<f64> =
            values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10).collect();
        let first = logs.iter().fold(-1.0, |least: f64, log| least.min(log.floor()));
        let last = logs.iter().fold(1.0, |most: f64, log| most.max(log.ceil()));
        Scale { first: first as i32, last: last as i32 }
    }

    /// What cannot be placed is at the very left.
    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        LEFT + (RIGHT - LEFT) * if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BenchPart;
    use crate::bench::statistics::Summary;

    fn results(ratios: &[f64]) -> Results {
        let mut results = Results::new(3).unwrap();
        for program in [BenchPart::Python, BenchPart::Bash] {
            results.latency.extend(ratios.iter().zip(Candidate::ALL).map(|(ratio, candidate)| LatencyRow {
                program,
                title: "a <b> & \"c\" 'd'",
                candidate,
                by: candidate.title(),
                ratio_to_bare: *ratio,
                times: Summary { samples: 3, p50_ms: 10.0 * ratio, p99_ms: 20.0 * ratio },
            }));
        }
        results
    }

    /// Values of an attribute in all tags of a kind.
    fn attribute(svg: &str, tag: &str, name: &str) -> Vec<f64> {
        let of_tag = |part: &str| {
            let tag = part.split('>').next().unwrap();
            let value = tag.split(&format!(" {name}=\"")).nth(1)?;
            Some(value.split('"').next().unwrap().parse().unwrap())
        };
        svg.split(&format!("<{tag} ")).skip(1).filter_map(of_tag).collect()
    }

    #[test]
    fn words_cannot_become_tags() {
        assert_eq!(escaped("<a href=\"x\">&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&apos;\u{fffd}");
        let svg = draw(&results(&[1.0]));
        assert!(svg.contains(">a &lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;</text>"));
        assert!(!svg.contains("<b>"));
    }

    #[test]
    fn everything_lies_within_the_picture() {
        for ratios in [
            vec![1.0, 1.7, 3.4, 2.2, 1.3, 1.5, 0.1, 0.01],
            vec![1.0, 1e9, 1e-9, f64::NAN, f64::INFINITY, 0.0, -3.0, 1.0],
            Vec::new(),
        ] {
            let svg = draw(&results(&ratios));
            let height = attribute(&svg, "svg", "height")[0];
            let (starts, widths) = (attribute(&svg, "rect", "x"), attribute(&svg, "rect", "width"));
            // The paper has no x.
            assert_eq!(starts.len(), 2 * ratios.len());
            for (start, width) in starts.iter().zip(&widths[1..]) {
                assert!(*width >= 0.0 && start + width <= RIGHT, "{start} {width}");
            }
            for tag in ["text", "rect"] {
                let least = if tag == "text" { 10.0 } else { 0.0 };
                assert!(attribute(&svg, tag, "y").iter().all(|y| *y >= least && *y < height));
                assert!(attribute(&svg, tag, "x").iter().all(|x| *x >= 0.0 && *x < WIDTH - 100.0));
            }
        }
    }

    #[test]
    fn a_bar_is_longer_by_the_same_for_the_same_factor() {
        let scale = Scale::of([0.01, 3.0].into_iter());
        assert_eq!((scale.first, scale.last), (-2, 1));
        assert_eq!((scale.x(0.01), scale.x(10.0)), (LEFT, RIGHT));
        let steps = [0.01, 0.1, 1.0, 10.0].map(|value| scale.x(value));
        for pair in steps.windows(2) {
            assert!((pair[1] - pair[0] - (RIGHT - LEFT) / 3.0).abs() < 1e-9);
        }
    }

    #[test]
    fn tags_are_closed_and_nothing_comes_from_elsewhere() {
        let svg = draw(&results(&[1.0, 0.02]));
        for tag in ["svg", "style", "title", "text"] {
            let opened = svg.matches(&format!("<{tag} ")).count() + svg.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        let elsewhere = svg.replace("http://www.w3.org/2000/svg", "");
        assert!(!["http", "url(", "@import", "href"].iter().any(|word| elsewhere.contains(word)));
    }
}
