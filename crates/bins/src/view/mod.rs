//! What people see: graphs and tables as text. Pure: everything comes in as a value and goes out as a string.

pub mod graph;
pub mod items;
pub mod name;
pub mod table;
pub mod text;
