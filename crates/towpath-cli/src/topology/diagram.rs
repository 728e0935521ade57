//! A network as a drawing: nodes and links, laid out as a tree as far as it is one.

use std::fmt::Write as _;

use crate::plot::{Column, Table};
use crate::words::percent;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagram {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
}

/// A host or a switch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) switch: bool,
    /// What else there is to say, in a few words.
    pub(crate) note: String,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Indices of nodes.
    pub(crate) ends: [usize; 2],
    /// `1 Gbit/s, 500 ns`.
    pub(crate) note: String,
    /// Reserved share of the direction that leaves the end of the same index, where known.
    pub(crate) load: Option<[f64; 2]>,
}

/// A place in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: usize,
    /// Index of the place above; `None` for a root.
    pub(crate) above: Option<usize>,
    /// The link to it.
    pub(crate) link: Option<usize>,
    pub(crate) depth: usize,
}

/// Trees that hold every node once, and the links outside of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Parents before children, children together, in the order in which they are drawn.
    pub(crate) places: Vec<Place>,
    pub(crate) others: Vec<usize>,
}

impl Diagram {
    /// A tree from the middle of each connected part.
    pub(crate) fn layout(&self) -> Layout {
        let near = self.neighbours();
        let mut placed = vec![false; self.nodes.len()];
        let mut used = vec![false; self.links.len()];
        let mut places = Vec::with_capacity(self.nodes.len());
        for first in 0..self.nodes.len() {
            if !placed[first] {
                let root = middle(&near, first);
                self.place(root, &near, &mut placed, &mut used, &mut places);
            }
        }
        let others = (0..self.links.len()).filter(|l| !used[*l]).collect();
        Layout { places, others }
    }

    /// Per node: (neighbour, link), in the order of the links.
    fn neighbours(&self) -> Vec<Vec<(usize, usize)>> {
        let mut near = vec![Vec::new(); self.nodes.len()];
        for (index, link) in self.links.iter().enumerate() {
            let [a, b] = link.ends;
            near[a].push((b, index));
            near[b].push((a, index));
        }
        near
    }

    /// Adds the tree of shortest paths from `root`: hosts of a switch before its switches.
    fn place(
        &self,
        root: usize,
        near: &[Vec<(usize, usize)>],
        placed: &mut [bool],
        used: &mut [bool],
        places: &mut Vec<Place>,
    ) {
        let (order, links) = breadth_first(near, root);
        let mut children = vec![Vec::new(); near.len()];
        for &node in order.iter().skip(1) {
            if let Some(link) = links[node] {
                let [a, b] = self.links[link].ends;
                children[if a == node { b } else { a }].push(node);
                used[link] = true;
            }
        }
        let mut stack = vec![(root, None, 0)];
        while let Some((node, above, depth)) = stack.pop() {
            placed[node] = true;
            let here = places.len();
            places.push(Place { node, above, link: links[node], depth });
            let mut below = children[node].clone();
            below.sort_by_key(|n| self.nodes[*n].switch);
            stack.extend(below.into_iter().rev().map(|n| (n, Some(here), depth + 1)));
        }
    }

    /// The tree with lines down its side, a row per node.
    pub(crate) fn text(&self) -> String {
        let loads = self.links.iter().any(|l| l.load.is_some());
        let mut columns = vec![
            Column::words("NODE", ""),
            Column::words("KIND", ""),
            Column::words("LINK", ""),
            Column::words("", ""),
        ];
        if loads {
            columns.insert(3, Column::figures("UP", ""));
            columns.insert(4, Column::figures("DOWN", ""));
        }
        let mut table = Table::new(&columns);
        let layout = self.layout();
        for (place, stem) in layout.places.iter().zip(stems(&layout.places)) {
            let node = &self.nodes[place.node];
            let link = place.link.map(|l| &self.links[l]);
            let kind = if node.switch { "switch" } else { "host" };
            let mut cells = vec![
                format!("{stem}{}", node.name),
                kind.to_string(),
                link.map_or(String::new(), |l| l.note.clone()),
                node.note.clone(),
            ];
            if loads {
                let load = link.and_then(|l| Some((l.load?, l.ends[0] == place.node)));
                let [up, down] = match load {
                    Some(([a, b], true)) => [percent(a), percent(b)],
                    Some(([a, b], false)) => [percent(b), percent(a)],
                    None => [String::new(), String::new()],
                };
                cells.insert(3, up);
                cells.insert(4, down);
            }
            table.push(cells.into_iter().map(|c| (c, String::new())).collect());
        }
        let mut out = table.text();
        for link in layout.others.iter().map(|l| &self.links[*l]) {
            let [a, b] = link.ends.map(|n| &self.nodes[n].name);
            // Writing to a string cannot fail, here and below.
            let _ = write!(out, "and {a} to {b}: {}", link.note);
            if let Some([from_a, from_b]) = link.load {
                let _ = write!(out, "; from {a} {}, from {b} {}", percent(from_a), percent(from_b));
            }
            out.push('\n');
        }
        out
    }
}

/// Nodes in the order of their distance from `root`, and the link by which each was reached.
fn breadth_first(near: &[Vec<(usize, usize)>], root: usize) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut seen = vec![false; near.len()];
    let mut links = vec![None; near.len()];
    let mut order = vec![root];
    seen[root] = true;
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for &(other, link) in &near[node] {
            if !seen[other] {
                seen[other] = true;
                links[other] = Some(link);
                order.push(other);
            }
        }
    }
    (order, links)
}

/// The middle of a longest path: of a tree, its centre.
fn middle(near: &[Vec<(usize, usize)>], first: usize) -> usize {
    let far = |from: usize| {
        let (order, links) = breadth_first(near, from);
        (order.last().copied().unwrap_or(from), links)
    };
    let (end, _) = far(first);
    let (mut node, links) = far(end);
    let mut path = vec![node];
    while let Some(link) = links[node] {
        let before = near[node].iter().find(|edge| edge.1 == link).map(|edge| edge.0);
        let Some(before) = before else { break };
        node = before;
        path.push(node);
    }
    path[path.len() / 2]
}

/// `│  ├─ ` before each place.
fn stems(places: &[Place]) -> Vec<String> {
    let mut last = vec![true; places.len()];
    let mut closed: Vec<Option<usize>> = vec![None; places.len()];
    for (index, place) in places.iter().enumerate() {
        if let Some(above) = place.above
            && let Some(before) = closed[above].replace(index)
        {
            last[before] = false;
        }
    }
    let stem = |index: usize| {
        let mut parts = Vec::new();
        let mut at = index;
        while let Some(above) = places[at].above {
            parts.push(match (at == index, last[at]) {
                (true, true) => "└─ ",
                (true, false) => "├─ ",
                (false, true) => "   ",
                (false, false) => "│  ",
            });
            at = above;
        }
        parts.into_iter().rev().collect()
    };
    (0..places.len()).map(stem).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Nodes of which those whose name begins with `s` are switches.
    pub(crate) fn diagram(names: &[&str], links: &[(usize, usize)]) -> Diagram {
        let node = |name: &&str| Node {
            name: (*name).to_string(),
            switch: name.starts_with('s'),
            note: String::new(),
        };
        let link = |&(a, b): &(usize, usize)| Link {
            ends: [a, b],
            note: "1 Gbit/s".to_string(),
            load: None,
        };
        Diagram { nodes: names.iter().map(node).collect(), links: links.iter().map(link).collect() }
    }

    #[test]
    fn a_tree_hangs_from_its_middle() {
        let two = diagram(
            &["h1", "h2", "h3", "s1", "s2", "s0"],
            &[(0, 3), (1, 3), (2, 4), (3, 5), (4, 5)],
        );
        let expected = "\
NODE      KIND    LINK
s0        switch
├─ s1     switch  1 Gbit/s
│  ├─ h1  host    1 Gbit/s
│  └─ h2  host    1 Gbit/s
└─ s2     switch  1 Gbit/s
   └─ h3  host    1 Gbit/s
";
        assert_eq!(two.text(), expected);
    }

    #[test]
    fn a_ring_keeps_the_link_that_closes_it_and_parts_stand_apart() {
        let mut ring = diagram(&["s1", "s2", "s3", "h9"], &[(0, 1), (1, 2), (2, 0)]);
        ring.links[2].load = Some([0.5, 0.0]);
        let layout = ring.layout();
        assert_eq!((layout.places.len(), layout.others.len()), (4, 1));
        assert_eq!(layout.places.iter().filter(|p| p.above.is_none()).count(), 2);
        let text = ring.text();
        assert!(text.contains("\nh9"), "{text}");
        ring.links[0].load = Some([0.25, 0.999]);
        let text = ring.text();
        assert!(text.contains("25 %") && text.contains("99 %"), "{text}");
    }

    #[test]
    fn a_load_is_shown_up_and_down_as_seen_from_the_lower_node() {
        let mut pair = diagram(&["s1", "h1", "h2"], &[(1, 0), (0, 2)]);
        pair.links[0].load = Some([0.10, 0.20]);
        pair.links[1].load = Some([0.30, 0.40]);
        let text = pair.text();
        let row = |name: &str| text.lines().find(|l| l.contains(name)).unwrap().to_string();
        assert!(row("h1").ends_with("10 %  20 %"), "{text}");
        assert!(row("h2").ends_with("40 %  30 %"), "{text}");
    }
}
