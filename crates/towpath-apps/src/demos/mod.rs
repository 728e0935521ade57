//! Small demonstrations that the report of 1994 names: a fractal, a tornado, transport with
//! chemistry, the radar cross section of a cylinder.

mod chemistry;
mod fractal;
mod radar;
mod tornado;

pub(crate) use chemistry::{ChemistryArgs, chemistry};
pub(crate) use fractal::{FractalArgs, fractal};
pub(crate) use radar::{RadarArgs, radar};
pub(crate) use tornado::{TornadoArgs, tornado};
