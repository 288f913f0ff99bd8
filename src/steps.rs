//! Counts how often objects are looked at, so that tests see how work grows with their number. Time would tell something else on
//! every machine.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

pub fn count() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// How many steps a piece of work takes on this thread.
pub fn of<T>(work: impl FnOnce() -> T) -> usize {
    let before = STEPS.with(Cell::get);
    work();
    STEPS.with(Cell::get) - before
}

/// Holds work to a few steps for each of so many things, at growing numbers of them.
pub fn assert_linear(name: &str, work: impl Fn(usize) -> usize) {
    const STEPS_EACH: usize = 8;
    for number in [10, 100, 1_000, 5_000] {
        let steps = work(number);
        assert!(steps <= STEPS_EACH * number, "{name}: {steps} steps for {number}");
    }
}
