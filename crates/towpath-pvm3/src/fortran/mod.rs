//! The Fortran interface: the C calls as subroutines. Arguments come by reference, the result goes
//! into the last one, and the lengths of strings follow all arguments, as gfortran passes them.

mod groups;
mod machine;
mod messages;
mod shapes;
mod strings;
mod tables;
mod tasks;
