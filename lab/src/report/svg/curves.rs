//! Draws cost against a number of tasks or waiters, both on logarithmic scales: a flat curve does not depend on the number.

use super::{Chart, colour, escaped, file, legend, open, short};
use crate::report::{Record, titles};

const WIDTH: usize = 940;
const HEIGHT: usize = 450;
/// The field of the lines: left, top, right, bottom.
const FIELD: [f64; 4] = [70.0, 90.0, 640.0, 390.0];
/// Least distance of two names at the right, and where the last one may stand.
const NAME: f64 = 14.0;
const LAST: f64 = 412.0;
/// A line that is everywhere this many times above the end of the middle one is named, not drawn.
const BEYOND: f64 = 10.0;

/// The curves of a workload; `None` without two numbers of one subject.
pub(super) fn chart(records: &[Record], workload: &str, runtime: &str, origin: &str) -> Option<Chart> {
    let all: Vec<&Record> = records
        .iter()
        .filter(|at| at.workload == workload && at.runtime == runtime && at.median > 0.0)
        .collect();
    let mut numbers: Vec<u64> = all.iter().map(|at| at.n).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut lines: Vec<Vec<&Record>> = Vec::new();
    for record in &all {
        match lines.iter_mut().find(|line| line[0].subject == record.subject) {
            Some(line) => line.push(record),
            None => lines.push(vec![record]),
        }
    }
    lines.retain(|line| line.len() > 1);
    let beyond = split_off_beyond(&mut lines);
    let points = || lines.iter().flatten();
    let (low, high) = (*numbers.first()?, *numbers.last()?);
    let least = points().map(|at| at.median).fold(f64::INFINITY, f64::min);
    let most = points().map(|at| at.median).fold(0.0, f64::max);
    if lines.is_empty() || low == high {
        return None;
    }
    let scale = Scale { x: (low as f64, high as f64), y: decades(least, most) };
    let title = titles::curve(workload, runtime);
    let subtitle =
        format!("nanoseconds an operation against {}, less is better. {origin}", titles::axis(workload));
    let mut text = open(WIDTH, HEIGHT, &title, &subtitle);
    text.push_str(&legend(66));
    text.push_str(&grid(&scale, &numbers, titles::axis(workload)));
    text.push_str(&draw(&scale, lines, high));
    text.push_str(&format!(
        "<text x=\"12\" y=\"{}\" fill=\"#667\">{}</text>\n",
        HEIGHT - 10,
        escaped(&beyond)
    ));
    text.push_str("</svg>\n");
    Some(Chart { file: file(&[workload, "growth", runtime]), title, text })
}

/// Takes the lines out that would make all others look like one, and names them.
fn split_off_beyond(lines: &mut Vec<Vec<&Record>>) -> String {
    let mut ends: Vec<f64> = lines.iter().map(|line| end(line)).collect();
    ends.sort_by(f64::total_cmp);
    let limit = ends.get(ends.len() / 2).map_or(f64::INFINITY, |middle| BEYOND * middle);
    let least = |line: &Vec<&Record>| line.iter().map(|at| at.median).fold(f64::INFINITY, f64::min);
    let (out, kept): (Vec<_>, Vec<_>) = lines.drain(..).partition(|line| least(line) > limit);
    *lines = kept;
    let names: Vec<String> =
        out.iter().map(|line| format!("{} {}", line[0].subject, short(end(line)))).collect();
    if names.is_empty() { String::new() } else { format!("Not drawn, far above: {}.", names.join(", ")) }
}

/// Both logarithmic scales.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn x(&self, n: f64) -> f64 {
        let [left, _, right, _] = FIELD;
        left + (right - left) * (n / self.x.0).ln() / (self.x.1 / self.x.0).ln()
    }

    fn y(&self, ns: f64) -> f64 {
        let [_, top, _, bottom] = FIELD;
        bottom - (bottom - top) * (ns / self.y.0).ln() / (self.y.1 / self.y.0).ln()
    }
}

/// The range in steps of 1, 2, 5 that holds both.
fn decades(least: f64, most: f64) -> (f64, f64) {
    let steps = steps();
    let low = steps.iter().copied().filter(|&step| step <= least).fold(steps[0], f64::max);
    let high =
        steps.iter().rev().copied().filter(|&step| step >= most && step > low).fold(f64::INFINITY, f64::min);
    (low, if high.is_finite() { high } else { most.max(low * 2.0) })
}

/// 0.1, 0.2, 0.5, 1, 2, 5, ...
fn steps() -> Vec<f64> {
    (-1..8).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power))).collect()
}

fn grid(scale: &Scale, numbers: &[u64], axis: &str) -> String {
    let [left, top, right, bottom] = FIELD;
    let mut out = String::new();
    for step in steps().into_iter().filter(|&step| step >= scale.y.0 && step <= scale.y.1) {
        let y = scale.y(step);
        out.push_str(&format!(
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e4e7ea\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#667\">{}</text>\n",
            left - 8.0,
            y + 4.0,
            if step < 1.0 { format!("{step:.1}") } else { titles::grouped(step as u64) }
        ));
    }
    for &n in numbers {
        let x = scale.x(n as f64);
        out.push_str(&format!(
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e4e7ea\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#667\">{}</text>\n",
            bottom + 18.0,
            titles::grouped(n)
        ));
    }
    out.push_str(&format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#667\">{axis}</text>\n",
        (left + right) / 2.0,
        bottom + 36.0
    ));
    out
}

/// The lines, ours above the others, and their names at the right where they do not cover each other.
fn draw(scale: &Scale, mut lines: Vec<Vec<&Record>>, high: u64) -> String {
    for line in &mut lines {
        line.sort_by_key(|at| at.n);
    }
    lines.sort_by(|left, right| end(right).total_cmp(&end(left)));
    let fair = |line: &[&Record]| line.iter().all(|at| at.is_fair());
    let mut names: Vec<f64> = lines.iter().map(|line| scale.y(end(line)) + 4.0).collect();
    for place in 1..names.len() {
        names[place] = names[place].max(names[place - 1] + NAME);
    }
    let mut room = LAST;
    for name in names.iter_mut().rev() {
        *name = name.min(room);
        room = *name - NAME;
    }
    let mut out = String::new();
    for (line, name) in lines.iter().zip(&names) {
        let colour = colour(line[0].kind, fair(line));
        let ours = line[0].kind == crate::peer::Kind::Ours;
        let points: Vec<String> =
            line.iter().map(|at| format!("{:.1},{:.1}", scale.x(at.n as f64), scale.y(at.median))).collect();
        out.push_str(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{}\"/>",
            points.join(" "),
            if ours { 3.0 } else { 1.5 }
        ));
        out.push_str(&format!(
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\"{}>{} {}{}</text>\n",
            FIELD[2] + 34.0,
            name,
            if ours { " font-weight=\"bold\"" } else { "" },
            escaped(&line[0].subject),
            short(end(line)),
            if line[line.len() - 1].n < high {
                format!(" at {}", titles::grouped(line[line.len() - 1].n))
            } else {
                String::new()
            }
        ));
    }
    out
}

/// The last value of a line.
fn end(line: &[&Record]) -> f64 {
    line.iter().max_by_key(|at| at.n).map_or(0.0, |at| at.median)
}
