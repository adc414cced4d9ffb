//! Texts for people: graphs and tables of flows. Pure: values in, text out.

pub mod graph;
pub mod items;
pub mod name;
pub mod table;
pub mod text;
