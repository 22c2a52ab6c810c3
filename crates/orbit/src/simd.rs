//! Selection of the widest vector instructions of the machine.

/// Run `work`, which is compiled once for each vector width and selected at run time. Every function it calls must be `#[inline(always)]`: others are
/// compiled for the smallest vectors.
///
/// The loops use no fused multiply-add and no sums across lanes, so the result is the same bit for bit at every width.
pub fn widest<W: pulp::NullaryFnOnce>(work: W) -> W::Output {
    pulp::Arch::new().dispatch(work)
}
