//! Attacks by people who may write custom resources, Secrets or other objects in one namespace, and what stops them.

mod adoption;
mod budgets;
mod concurrency;
mod edges;
mod forged_states;
mod forgeries;
mod helm_marks;
mod helm_releases;
mod marks;
mod objects;
mod operators;
mod operators_own;
mod records;
mod tenant;
mod trust;
