//! A diagram as SVG: a tree from left to right, a row per leaf.

use std::fmt::Write as _;

use super::diagram::{Diagram, Layout};
use crate::plot::escape;
use crate::words::percent;

const ROW: f64 = 26.0;
const MARGIN: f64 = 14.0;
/// Mean width of a letter at the size used.
const LETTER: f64 = 6.6;
/// Least space between the boxes of two columns, for what is written on a link.
const GAP: f64 = 60.0;
/// Room for a title.
const WIDTH_LEAST: f64 = 520.0;

/// Where everything stands.
struct Plan {
    /// Per place: middle of its box, from above.
    rows: Vec<f64>,
    /// Per depth: left edge and width of its boxes.
    columns: Vec<(f64, f64)>,
    width: f64,
    height: f64,
}

impl Diagram {
    /// The picture. Links that are loaded are coloured by their busier direction.
    pub(crate) fn svg(&self, title: &str) -> String {
        let layout = self.layout();
        let plan = plan(self, &layout);
        let (width, height) = (plan.width, plan.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\" font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"#222\">\n\
             <title>{0}</title>\n\
             <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#fff\"/>\n\
             <text x=\"{MARGIN}\" y=\"20\" font-size=\"14\" font-weight=\"600\">{0}</text>\n",
            escape(title)
        );
        for index in 0..layout.places.len() {
            self.draw_link(&mut out, &layout, &plan, index);
        }
        for index in 0..layout.places.len() {
            self.draw_node(&mut out, &layout, &plan, index);
        }
        self.draw_others(&mut out, &layout, &plan);
        out.push_str("</svg>\n");
        out
    }

    /// The link from a place to the one above it.
    fn draw_link(&self, out: &mut String, layout: &Layout, plan: &Plan, index: usize) {
        let place = layout.places[index];
        let (Some(above), Some(link)) = (place.above, place.link) else { return };
        let link = &self.links[link];
        let (left, box_width) = plan.columns[place.depth - 1];
        let (from, y0) = (left + box_width, plan.rows[above]);
        let (to, y1) = (plan.columns[place.depth].0, plan.rows[index]);
        let bend = from + 14.0;
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "<path d=\"M{from:.1} {y0:.1}H{bend:.1}V{y1:.1}H{to:.1}\" fill=\"none\" {}/>",
            stroke(link.load)
        );
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\" fill=\"#555\">{}</text>",
            bend + 4.0,
            y1 - 3.0,
            escape(&written(self, place.link, place.node))
        );
    }

    fn draw_node(&self, out: &mut String, layout: &Layout, plan: &Plan, index: usize) {
        let place = layout.places[index];
        let node = &self.nodes[place.node];
        let (left, width) = plan.columns[place.depth];
        let y = plan.rows[index];
        // Switches are square and grey, hosts round: told apart without colours.
        let (round, fill) = if node.switch { (2, "#e8e8e8") } else { (9, "#fff") };
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"{round}\" \
             fill=\"{fill}\" stroke=\"#444\"/>\n<text x=\"{:.1}\" y=\"{:.1}\">{}<tspan dx=\"6\" \
             font-size=\"10\" fill=\"#555\">{}</tspan></text>",
            y - 9.0,
            left + 7.0,
            y + 4.0,
            escape(&node.name),
            escape(&node.note)
        );
    }

    /// Links outside of the trees: dashed arcs on the left of the boxes.
    fn draw_others(&self, out: &mut String, layout: &Layout, plan: &Plan) {
        let mut at = vec![0; self.nodes.len()];
        for (index, place) in layout.places.iter().enumerate() {
            at[place.node] = index;
        }
        for link in layout.others.iter().map(|l| &self.links[*l]) {
            let ends = link.ends.map(|n| {
                let place = at[n];
                (plan.columns[layout.places[place].depth].0 + 2.0, plan.rows[place])
            });
            let [(x0, y0), (x1, y1)] = ends;
            let pull = x0.min(x1) - 24.0;
            let _ = writeln!(
                out,
                "<path d=\"M{x0:.1} {y0:.1}C{pull:.1} {y0:.1} {pull:.1} {y1:.1} {x1:.1} {y1:.1}\" \
                 fill=\"none\" stroke-dasharray=\"5 3\" {}><title>{}</title></path>",
                stroke(link.load),
                escape(&link.note)
            );
        }
    }
}

/// What stands on the link of a node to the one above it.
fn written(diagram: &Diagram, link: Option<usize>, node: usize) -> String {
    let Some(link) = link.map(|l| &diagram.links[l]) else { return String::new() };
    let loads = link.load.map(|[a, b]| {
        let (up, down) = if link.ends[0] == node { (a, b) } else { (b, a) };
        // The one above stands on the left.
        format!("   ← {}  → {}", percent(up), percent(down))
    });
    link.note.clone() + &loads.unwrap_or_default()
}

fn stroke(load: Option<[f64; 2]>) -> &'static str {
    match load.map(|[a, b]| a.max(b)) {
        None => "stroke=\"#444\" stroke-width=\"1.4\"",
        Some(share) if share > 0.9 => "stroke=\"#d55e00\" stroke-width=\"3.5\"",
        Some(share) if share > 0.5 => "stroke=\"#e69f00\" stroke-width=\"2.8\"",
        Some(share) if share > 0.0 => "stroke=\"#0072b2\" stroke-width=\"2.2\"",
        Some(_) => "stroke=\"#999\" stroke-width=\"1.4\"",
    }
}

fn plan(diagram: &Diagram, layout: &Layout) -> Plan {
    let places = &layout.places;
    let depth = places.iter().map(|p| p.depth).max().unwrap_or(0);
    let letters = |text: &str, size: f64| text.chars().count() as f64 * LETTER * size;
    let (mut boxes, mut gaps) = (vec![0.0_f64; depth + 1], vec![GAP; depth + 1]);
    for place in places {
        let node = &diagram.nodes[place.node];
        let note = if node.note.is_empty() { 0.0 } else { letters(&node.note, 0.85) + 8.0 };
        let width = letters(&node.name, 1.0) + note + 14.0;
        boxes[place.depth] = boxes[place.depth].max(width);
        let note = letters(&written(diagram, place.link, place.node), 0.85) + 26.0;
        gaps[place.depth] = gaps[place.depth].max(note);
    }
    // Room for the arcs of links outside of the trees.
    let mut x = MARGIN + if layout.others.is_empty() { 0.0 } else { 24.0 };
    let mut columns = Vec::with_capacity(depth + 1);
    for (level, width) in boxes.iter().enumerate() {
        if level > 0 {
            x += gaps[level];
        }
        columns.push((x, *width));
        x += width;
    }
    let leaf = |index: usize| places.get(index + 1).is_none_or(|next| next.above != Some(index));
    let mut rows = vec![0.0; places.len()];
    let mut y = 44.0;
    for (index, row) in rows.iter_mut().enumerate() {
        if leaf(index) {
            *row = y;
            y += ROW;
        }
    }
    // Whoever has somebody below stands in the middle of them; the last ones come first.
    let mut span: Vec<Option<(f64, f64)>> = vec![None; places.len()];
    for index in (0..places.len()).rev() {
        if let Some((first, last)) = span[index] {
            rows[index] = f64::midpoint(first, last);
        }
        if let Some(above) = places[index].above {
            let row = rows[index];
            span[above] = Some(span[above].map_or((row, row), |(_, last)| (row, last)));
        }
    }
    Plan { rows, columns, width: (x + MARGIN).max(WIDTH_LEAST), height: y + MARGIN - ROW / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::super::diagram::tests::diagram;

    #[test]
    fn every_node_and_link_is_there_and_names_are_escaped() {
        let mut d = diagram(&["s1", "h<1>", "h2", "s2"], &[(1, 0), (2, 3), (0, 3), (3, 0)]);
        d.links[0].load = Some([0.95, 0.1]);
        let svg = d.svg("a & b");
        assert_eq!(svg.matches("<rect x=").count(), 4);
        assert_eq!(svg.matches("<path").count(), 4);
        assert_eq!(svg.matches("stroke-dasharray").count(), 1);
        assert!(svg.contains(">h&lt;1&gt;<") && svg.contains("<title>a &amp; b</title>"), "{svg}");
        assert!(svg.contains("← 95 %  → 10 %"), "{svg}");
    }

    #[test]
    fn a_parent_stands_between_its_children_and_no_two_leaves_share_a_row() {
        let d = diagram(&["s0", "h1", "h2", "h3"], &[(0, 1), (0, 2), (0, 3)]);
        let layout = d.layout();
        let plan = super::plan(&d, &layout);
        let row =
            |node: usize| plan.rows[layout.places.iter().position(|p| p.node == node).unwrap()];
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(row(0), row(2)));
        assert!(near(row(2) - row(1), super::ROW));
        assert!(plan.height > row(3));
    }

    #[test]
    fn a_long_chain_and_nothing_at_all_are_drawn() {
        let names: Vec<String> = (0..3000).map(|k| format!("s{k}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let links: Vec<(usize, usize)> = (1..3000).map(|k| (k - 1, k)).collect();
        assert!(diagram(&names, &links).svg("chain").contains(">s2999<"));
        assert!(super::Diagram::default().svg("nothing").ends_with("</svg>\n"));
    }
}
