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

const STEPS_EACH: usize = 8;
const NUMBERS: [usize; 4] = [10, 100, 1_000, 5_000];

/// Holds work to a few steps for each of so many things, at growing numbers of them.
pub fn assert_linear(name: &str, work: impl Fn(usize) -> usize) {
    assert_bounded(name, |number| number, work);
}

/// The same for work that sorts or searches: each time that the number doubles, each thing may take a few steps more.
pub fn assert_n_log_n(name: &str, work: impl Fn(usize) -> usize) {
    assert_bounded(name, |number| number * (number.ilog2() as usize + 1), work);
}

/// Work that counts nothing would stay within every bound.
fn assert_bounded(name: &str, bound: impl Fn(usize) -> usize, work: impl Fn(usize) -> usize) {
    let mut counted = 0;
    for number in NUMBERS {
        counted = work(number);
        assert_few(name, bound(number), counted);
    }
    assert!(counted > 0, "{name}: no step was counted");
}

/// Holds work that took so many steps to a few for each of so many things, whatever their shape is.
pub fn assert_few(name: &str, number: usize, steps: usize) {
    assert!(steps <= STEPS_EACH * number, "{name}: {steps} steps for {number}");
}
