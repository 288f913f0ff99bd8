//! Cycles between releases: one whose values come from an object that another release makes, whose values come from an object
//! that the first one makes, over any number of releases between them. Each revision of one could be the reason for the next
//! revision of another, without end.
//!
//! [`shortest`] is pure. The edges are what is known of the objects that custom resources refer to.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use super::Shared;
use super::table::At;
use crate::listeners::Parent;

impl Shared {
    /// Whether the values of a custom resource depend on itself, over other releases: the object that leads there, and the
    /// way in words. Who else is on the cycle is told where that is news.
    pub(super) fn cycle_of(&self, reader: &Parent) -> Option<(At, String)> {
        let way = {
            let tables = self.all();
            let edges = |node: &Parent| tables.values().flat_map(|table| table.made_for(node)).collect();
            shortest(reader, edges)
        };
        let others = way.iter().flatten().map(|(_, node)| node).filter(|node| *node != reader).cloned().collect();
        self.note_cycle(reader, others);
        let way = way?;
        let mut words = self.listeners.name_of(reader);
        for ((kind, place), maker) in &way {
            let (kind, maker) = (kind.as_str(), self.listeners.name_of(maker));
            words.push_str(&format!(" takes values from the {kind} {}, which {maker} makes; {maker}", place.name));
        }
        // The last maker is where it began.
        let words = words.rsplit_once("; ").map_or(words.clone(), |(words, _)| words.to_owned());
        Some((way.first()?.0.clone(), words))
    }

    /// Remembers who is on a cycle with a custom resource. Where that changed, the others look again: they are refused too, or
    /// no longer.
    pub(super) fn note_cycle(&self, reader: &Parent, others: Vec<Parent>) {
        let mut all = self.cycles.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = match others.is_empty() {
            true => all.remove(reader),
            false => all.insert(reader.clone(), others.clone()),
        };
        drop(all);
        let before = before.unwrap_or_default();
        if before != others {
            self.wake(&before);
            self.wake(&others);
        }
    }
}

/// The shortest way from a node over others back to itself, as the edges on it. `edges` says where a node leads. An edge from a
/// node to itself is no such way, and must not hide one.
///
/// Each node and each edge is looked at once.
fn shortest<N, E>(start: &N, edges: impl Fn(&N) -> Vec<(E, N)>) -> Option<Vec<(E, N)>>
where
    N: Clone + Eq + Hash,
    E: Clone,
{
    let mut reached: HashMap<N, (N, E)> = HashMap::new();
    let mut seen: HashSet<N> = HashSet::new();
    let mut waiting = VecDeque::from([start.clone()]);
    while let Some(node) = waiting.pop_front() {
        #[cfg(test)]
        crate::steps::count();
        for (edge, to) in edges(&node) {
            #[cfg(test)]
            crate::steps::count();
            if to == node {
                continue;
            }
            if to == *start {
                let mut way = vec![(edge, to)];
                let mut at = node;
                while at != *start {
                    #[cfg(test)]
                    crate::steps::count();
                    let (from, edge) = reached.remove(&at)?;
                    way.push((edge, at));
                    at = from;
                }
                way.reverse();
                return Some(way);
            }
            if seen.insert(to.clone()) {
                reached.insert(to.clone(), (node.clone(), edge));
                waiting.push_back(to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::steps;

    fn way(edges: &[(u32, u32)], start: u32) -> Option<Vec<u32>> {
        let from = |node: &u32| {
            let of = edges.iter().filter(|(from, _)| from == node);
            of.map(|(from, to)| (format!("{from}-{to}"), *to)).collect()
        };
        let way = shortest(&start, from)?;
        Some(way.into_iter().map(|(_, node)| node).collect())
    }

    #[test]
    fn cycles_of_any_length_are_found() {
        assert_eq!(way(&[(1, 2), (2, 1)], 1), Some(vec![2, 1]));
        assert_eq!(way(&[(1, 2), (2, 3), (3, 1)], 2), Some(vec![3, 1, 2]));
        let ring: Vec<_> = (0..500).map(|node| (node, (node + 1) % 500)).collect();
        assert_eq!(way(&ring, 7).map(|way| way.len()), Some(500));
    }

    #[test]
    fn the_shortest_is_told_and_what_only_leads_to_a_cycle_is_none() {
        assert_eq!(way(&[(1, 2), (2, 3), (3, 1), (2, 1)], 1), Some(vec![2, 1]));
        assert_eq!(way(&[(1, 2), (2, 3), (3, 2)], 1), None);
        assert_eq!(way(&[(1, 2), (1, 3), (2, 4), (3, 4)], 1), None);
    }

    #[test]
    fn what_a_node_takes_from_itself_is_no_cycle_and_hides_none() {
        assert_eq!(way(&[(1, 1)], 1), None);
        assert_eq!(way(&[(1, 1), (2, 2), (1, 2), (2, 1)], 1), Some(vec![2, 1]));
    }

    #[test]
    fn the_steps_grow_with_the_nodes_and_with_the_edges() {
        steps::assert_linear("many edges", |number| {
            let size = number as u32;
            let dense = |node: &u32| (1..=3).map(|step| ((), (node * 3 + step) % size + 1)).collect();
            steps::of(|| assert_eq!(shortest(&0, dense), None))
        });
        steps::assert_linear("a ring", |number| {
            let ring = |node: &usize| vec![((), (node + 1) % number)];
            steps::of(|| assert_eq!(shortest(&0, ring).map(|way| way.len()), Some(number)))
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn any_graph_takes_a_few_steps_for_each_node_and_edge(
            edges in proptest::collection::vec((0..20_u32, 0..20_u32), 0..120),
        ) {
            let mut from: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
            edges.iter().for_each(|(one, other)| from.entry(*one).or_default().push((*other, *other)));
            let lead = |node: &u32| from.get(node).cloned().unwrap_or_default();
            let mut way = None;
            steps::assert_few("shortest", 1 + edges.len(), steps::of(|| way = shortest(&0, lead)));
            for (at, (_, node)) in way.iter().flatten().enumerate() {
                let before = at.checked_sub(1).map_or(0, |before| way.as_ref().unwrap()[before].1);
                prop_assert!(edges.contains(&(before, *node)), "each step of {way:?} is an edge");
            }
        }
    }
}
