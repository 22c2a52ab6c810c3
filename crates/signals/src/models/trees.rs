//! Gradient-boosted trees, with the arithmetic of `XGBoost`: features and thresholds are `f32`, leaves are added in `f32` in the order of the trees.

use super::{ModelError, check_each, check_length};

/// Most nodes that a row passes in all trees; chosen here: about a millisecond, a hundred times what training makes.
const MOST_STEPS: u64 = 1_000_000;

/// Trees for several quantiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    columns: usize,
    nodes: Vec<Node>,
    /// First node of each tree, and the quantile that its leaves add to.
    roots: Vec<(u32, u32)>,
    base: Vec<f32>,
}

/// A node; of a leaf, `left` is 0 and `threshold` its value.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    feature: u32,
    threshold: f32,
    left: u32,
    right: u32,
    goes_left_if_missing: bool,
}

/// The arrays of trees. Nodes of all trees stand one after the other; children have numbers above their parent's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeArrays {
    /// Number of features of a row.
    pub columns: usize,
    /// Feature of each node.
    pub feature: Vec<u32>,
    /// Threshold of each node (below it: left), or the value of a leaf.
    pub threshold: Vec<f32>,
    /// Left child; 0: a leaf.
    pub left: Vec<u32>,
    /// Right child.
    pub right: Vec<u32>,
    /// Whether a missing feature goes left.
    pub missing_left: Vec<u8>,
    /// First node of each tree.
    pub root: Vec<u32>,
    /// Quantile of each tree.
    pub output: Vec<u32>,
    /// Value of each quantile without trees.
    pub base: Vec<f32>,
}

impl Trees {
    /// Make trees from arrays.
    ///
    /// # Errors
    /// Lengths that do not agree, or numbers out of range: children at or before their parent, features or quantiles that are none. Trees that
    /// are together deeper than [`MOST_STEPS`] nodes.
    pub fn new(arrays: &TreeArrays) -> Result<Self, ModelError> {
        let count = arrays.feature.len();
        check_length("threshold", arrays.threshold.len(), count)?;
        check_length("left", arrays.left.len(), count)?;
        check_length("right", arrays.right.len(), count)?;
        check_length("missing_left", arrays.missing_left.len(), count)?;
        check_length("output", arrays.output.len(), arrays.root.len())?;
        check_each("base", &arrays.base, f32::is_finite, "finite numbers")?;
        check_each("threshold", &arrays.threshold, f32::is_finite, "finite numbers")?;
        check_each("root", &arrays.root, |root| (root as usize) < count, "a node")?;
        check_each("output", &arrays.output, |output| (output as usize) < arrays.base.len(), "a quantile")?;
        if arrays.base.is_empty() {
            return Err(ModelError::Length { name: "base", given: 0, expected: 1 });
        }
        for index in 0..count {
            let (left, right) = (arrays.left[index] as usize, arrays.right[index] as usize);
            if left == 0 {
                continue;
            }
            if !(left > index && right > index && left < count && right < count) {
                return Err(ModelError::Range { name: "left", index, expected: "children after their parent" });
            }
            if arrays.feature[index] as usize >= arrays.columns {
                return Err(ModelError::Range { name: "feature", index, expected: "a column" });
            }
        }
        check_depth(arrays)?;
        let nodes = (0..count)
            .map(|index| Node {
                feature: arrays.feature[index],
                threshold: arrays.threshold[index],
                left: arrays.left[index],
                right: arrays.right[index],
                goes_left_if_missing: arrays.missing_left[index] != 0,
            })
            .collect();
        let roots = arrays.root.iter().copied().zip(arrays.output.iter().copied()).collect();
        Ok(Self { columns: arrays.columns, nodes, roots, base: arrays.base.clone() })
    }

    pub(super) const fn columns(&self) -> usize {
        self.columns
    }

    pub(super) const fn quantiles(&self) -> usize {
        self.base.len()
    }

    #[allow(clippy::cast_possible_truncation)] // XGBoost's features are f32
    pub(super) fn predict(&self, row: &[f64]) -> Vec<f64> {
        let row: Vec<f32> = row.iter().map(|&each| each as f32).collect();
        let mut sums = self.base.clone();
        for &(root, output) in &self.roots {
            let mut node = &self.nodes[root as usize];
            while node.left != 0 {
                let value = row[node.feature as usize];
                let goes_left = if value.is_nan() { node.goes_left_if_missing } else { value < node.threshold };
                node = &self.nodes[if goes_left { node.left } else { node.right } as usize];
            }
            sums[output as usize] += node.threshold;
        }
        let mut quantiles: Vec<f64> = sums.into_iter().map(f64::from).collect();
        quantiles.sort_by(f64::total_cmp);
        quantiles
    }
}

/// Check that a row passes at most [`MOST_STEPS`] nodes: many roots may lead into one long chain. Children come after their parents.
fn check_depth(arrays: &TreeArrays) -> Result<(), ModelError> {
    let mut depth = vec![1_u64; arrays.left.len()];
    for index in (0..depth.len()).rev().filter(|&index| arrays.left[index] != 0) {
        depth[index] = 1 + depth[arrays.left[index] as usize].max(depth[arrays.right[index] as usize]);
    }
    let mut steps = 0;
    for (index, &root) in arrays.root.iter().enumerate() {
        steps += depth[root as usize];
        if steps > MOST_STEPS {
            return Err(ModelError::Range { name: "root", index, expected: "trees of at most 1,000,000 nodes from root to leaf in all" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stump() -> TreeArrays {
        TreeArrays {
            columns: 1,
            feature: vec![0, 0, 0],
            threshold: vec![5.0, 1.0, 2.0],
            left: vec![1, 0, 0],
            right: vec![2, 0, 0],
            missing_left: vec![1, 0, 0],
            root: vec![0, 0],
            output: vec![0, 1],
            base: vec![10.0, 0.0],
        }
    }

    #[test]
    fn a_row_ends_in_a_leaf_and_quantiles_are_sorted() {
        let trees = Trees::new(&stump()).unwrap();
        assert_eq!(trees.predict(&[4.9]), [1.0, 11.0]);
        assert_eq!(trees.predict(&[5.0]), [2.0, 12.0]);
        assert_eq!(trees.predict(&[f64::NAN]), [1.0, 11.0]);
    }

    #[test]
    fn trees_that_would_run_for_hours_are_refused() {
        let chain = |count: u32, roots: usize| TreeArrays {
            columns: 1,
            feature: vec![0; count as usize],
            threshold: vec![0.0; count as usize],
            left: (1..count).chain([0]).collect(),
            right: (1..count).chain([0]).collect(),
            missing_left: vec![1; count as usize],
            root: vec![0; roots],
            output: vec![0; roots],
            base: vec![0.0],
        };
        assert!(Trees::new(&chain(1000, 1000)).is_ok());
        assert!(matches!(Trees::new(&chain(1000, 1001)), Err(ModelError::Range { name: "root", .. })));
    }

    proptest! {
        #[test]
        fn hostile_arrays_are_refused_or_end(
            columns in 0_usize..4, feature in prop::collection::vec(0_u32..5, 1..12), links in prop::collection::vec(any::<(u8, u8)>(), 12),
            root in prop::collection::vec(0_u32..14, 0..4), base in prop::collection::vec(-1.0_f32..1.0, 0..3)
        ) {
            let count = feature.len();
            let child = |byte: u8| u32::from(byte) % 14;
            let arrays = TreeArrays {
                columns,
                threshold: vec![0.5; count],
                left: links[..count].iter().map(|link| child(link.0)).collect(),
                right: links[..count].iter().map(|link| child(link.1)).collect(),
                missing_left: vec![1; count],
                output: vec![0; root.len()],
                feature,
                root,
                base,
            };
            if let Ok(trees) = Trees::new(&arrays) {
                prop_assert_eq!(trees.predict(&vec![0.3; columns]).len(), arrays.base.len());
            }
        }
    }
}
