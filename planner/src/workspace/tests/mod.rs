//! Bounds, reservations and declarations of workspace, and what becomes of them.

mod bounds;
mod follow;
mod models;
