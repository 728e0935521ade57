//! What the members of a group do together: reduce, gather, scatter.
//!
//! As in PVM, members on one host reduce to the lowest of them, which sends on to the root; the
//! order of combining is that of instance numbers, so that the same values give the same result.
//! Messages are in PVM's context for dynamic groups and do not meet those of the program.

use super::receive::Sought;
use super::session::Library;
use crate::code::{Code, Outcome};
use crate::message::{Element, Encoding, Message};
use crate::strided::Strided;
use crate::tid;
use crate::vm::Envelope;

/// Context of the messages of group operations.
const GROUP_CONTEXT: i32 = 0x7_fffc;

/// A reduce function: type, values (which take the result), more values, how many, code.
pub(crate) type Operator = unsafe extern "C" fn(*mut i32, *mut u8, *mut u8, *mut i32, *mut i32);

/// The types that group operations take, by PVM's numbers.
fn element_of(data_type: i32) -> Result<Element, Code> {
    match data_type {
        // A string counts as bytes.
        0 => Ok(Element::Byte),
        1..=8 => Element::of_data_type(data_type),
        _ => Err(Code::BadParam),
    }
}

/// Size of the elements of a type that group operations take.
pub(crate) fn size_of(data_type: i32) -> Outcome {
    element_of(data_type).map(|element| element.size() as i32)
}

/// Values as bytes, as long as a buffer of the program.
fn elements(bytes: &mut [u8], element: Element) -> Result<Strided<'_>, Code> {
    let count = bytes.len() / element.size();
    // SAFETY: `bytes` has as many elements.
    unsafe { Strided::new(bytes.as_mut_ptr(), count as i32, 1) }
}

impl Library {
    /// `pvm_reduce`: `data` of the root takes the result; of others it may be changed.
    pub(crate) fn reduce(
        &self,
        operator: Operator,
        data: &mut [u8],
        data_type: i32,
        tag: i32,
        group: &str,
        root: i32,
    ) -> Outcome {
        let me = self.my_tid()?;
        self.instance(group, me)?;
        let root = self.member(group, root)?;
        let element = element_of(data_type)?;
        let members = self.enrolled(|session, vm| session.members(vm, group))?;
        let on_host = |tid: i32| move |other: &i32| *other != 0 && tid::host_of(*other ^ tid) == 0;
        let lowest = |tid: i32| members.iter().copied().filter(on_host(tid)).min().unwrap_or(tid);
        let coordinator = lowest(me);
        let mut more = Vec::new();
        let mut combine = |from: i32, data: &mut [u8]| {
            more.resize(data.len(), 0);
            self.receive_values(from, tag, element, elements(&mut more, element)?)?;
            apply(operator, data_type, data, &mut more, element)
        };
        if me == coordinator {
            for &from in members.iter().filter(|tid| on_host(me)(tid) && **tid != me) {
                combine(from, data)?;
            }
        } else {
            self.send_values(coordinator, tag, element, elements(data, element)?)?;
        }
        if me == root {
            if me != coordinator {
                self.receive_values(coordinator, tag, element, elements(data, element)?)?;
            }
            for (from, _) in super::group::by_host(&members) {
                if from != coordinator {
                    combine(from, data)?;
                }
            }
        } else if me == coordinator {
            self.send_values(root, tag, element, elements(data, element)?)?;
        }
        Ok(0)
    }

    /// `pvm_gather`: `result` gives the place for an instance's values at the root, which has
    /// it, for all by instance number.
    pub(crate) fn gather<'a>(
        &self,
        result: Option<impl Fn(usize) -> Result<Strided<'a>, Code>>,
        data: Strided<'_>,
        data_type: i32,
        tag: i32,
        group: &str,
        root: i32,
    ) -> Outcome {
        let element = element_of(data_type)?;
        let root_tid = self.member(group, root)?;
        let me = self.my_tid()?;
        let mine = self.instance(group, me)?;
        if mine != root {
            self.send_values(root_tid, tag, element, data)?;
            return Ok(0);
        }
        let place = result.ok_or(Code::BadParam)?;
        for (instance, from) in self.without_holes(group)?.into_iter().enumerate() {
            if from == me {
                copy(data, place(instance)?, element);
            } else {
                self.receive_values(from, tag, element, place(instance)?)?;
            }
        }
        Ok(0)
    }

    /// `pvm_scatter`: `result` takes this member's part of the root's values; `data` is where an
    /// instance's are at the root.
    pub(crate) fn scatter<'a>(
        &self,
        result: Strided<'_>,
        data: Option<impl Fn(usize) -> Result<Strided<'a>, Code>>,
        data_type: i32,
        tag: i32,
        group: &str,
        root: i32,
    ) -> Outcome {
        let element = element_of(data_type)?;
        let root_tid = self.member(group, root)?;
        let me = self.my_tid()?;
        if self.instance(group, me)? != root {
            self.receive_values(root_tid, tag, element, result)?;
            return Ok(0);
        }
        let place = data.ok_or(Code::BadParam)?;
        // What the root keeps may lie over what others get: theirs go first.
        let members = self.without_holes(group)?;
        for (instance, &to) in members.iter().enumerate().filter(|(_, to)| **to != me) {
            self.send_values(to, tag, element, place(instance)?)?;
        }
        if let Some(mine) = members.iter().position(|&to| to == me) {
            copy(place(mine)?, result, element);
        }
        Ok(0)
    }

    /// Members by instance number; there may be no holes.
    fn without_holes(&self, group: &str) -> Result<Vec<i32>, Code> {
        let mut members = self.enrolled(|session, vm| session.members(vm, group))?;
        while members.last() == Some(&0) {
            members.pop();
        }
        if members.contains(&0) { Err(Code::NoInst) } else { Ok(members) }
    }

    /// Sends values, by no buffer that the program could see.
    fn send_values(
        &self,
        to: i32,
        tag: i32,
        element: Element,
        values: Strided<'_>,
    ) -> Result<(), Code> {
        let mut message = Message::new(Encoding::DEFAULT, Vec::new());
        message.pack(element, values)?;
        self.enrolled(|session, vm| {
            if tag < 0 && !session.options.reserved {
                return Err(Code::BadParam);
            }
            let format = message.encoding().format();
            let envelope = Envelope { tag, context: GROUP_CONTEXT, format };
            message.with_parts(|parts| vm.send(to, envelope, parts))
        })
    }

    /// Receives values, by no buffer that the program could see.
    fn receive_values(
        &self,
        from: i32,
        tag: i32,
        element: Element,
        to: Strided<'_>,
    ) -> Result<(), Code> {
        let sought = self.enrolled(|session, _| session.sought(from, tag))?;
        let sought = Sought { context: GROUP_CONTEXT, matches: None, ..sought };
        self.take_and_free(sought, |message| message.unpack(element, to))
    }
}

/// Copies values, which may lie over each other.
fn copy(from: Strided<'_>, to: Strided<'_>, element: Element) {
    let mut values = Vec::new();
    from.gather(element.size(), |part| values.extend_from_slice(part));
    to.scatter(element.size(), 0, &values);
}

/// Calls the program's operator.
fn apply(
    operator: Operator,
    mut data_type: i32,
    data: &mut [u8],
    more: &mut [u8],
    element: Element,
) -> Result<(), Code> {
    let mut count = (data.len() / element.size()) as i32;
    let mut code = 0;
    // SAFETY: a reduce function gets pointers to its type, both rows of values, which have
    // `count` elements, their number and a code. `data` is the program's own, aligned as it had
    // it; `more` is from the allocator, which aligns for every type of C.
    unsafe {
        operator(
            &raw mut data_type,
            data.as_mut_ptr(),
            more.as_mut_ptr(),
            &raw mut count,
            &raw mut code,
        );
    }
    if code < 0 { Err(Code::from_number(code).unwrap_or(Code::BadParam)) } else { Ok(()) }
}

/// One of PVM's own reduce functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Max,
    Min,
    Sum,
    Product,
}

/// Combines rows of values. Complex numbers compare by their absolute values. Sum and product
/// take no bytes.
pub(crate) fn built_in(
    function: Function,
    data_type: i32,
    data: &mut [u8],
    more: &[u8],
) -> Result<(), Code> {
    let ordered = matches!(function, Function::Max | Function::Min);
    match data_type {
        1 if ordered => {
            for (x, y) in data.iter_mut().zip(more) {
                // PVM compares chars, which have a sign on x86-64 and none on AArch64.
                let (a, b) =
                    (std::ffi::c_char::from_ne_bytes([*x]), std::ffi::c_char::from_ne_bytes([*y]));
                let chosen = if function == Function::Max { a.max(b) } else { a.min(b) };
                *x = chosen.to_ne_bytes()[0];
            }
        }
        2 => each(data, more, i16::from_ne_bytes, i16::to_ne_bytes, |x, y| {
            whole(function, x, y, i16::wrapping_add, i16::wrapping_mul)
        }),
        3 => each(data, more, i32::from_ne_bytes, i32::to_ne_bytes, |x, y| {
            whole(function, x, y, i32::wrapping_add, i32::wrapping_mul)
        }),
        8 => each(data, more, i64::from_ne_bytes, i64::to_ne_bytes, |x, y| {
            whole(function, x, y, i64::wrapping_add, i64::wrapping_mul)
        }),
        4 => each(data, more, f32::from_ne_bytes, f32::to_ne_bytes, |x, y| real(function, x, y)),
        6 => each(data, more, f64::from_ne_bytes, f64::to_ne_bytes, |x, y| real(function, x, y)),
        5 => complex::<4, f32>(function, data, more, f32::from_ne_bytes, f32::to_ne_bytes),
        7 => complex::<8, f64>(function, data, more, f64::from_ne_bytes, f64::to_ne_bytes),
        _ => return Err(Code::BadParam),
    }
    Ok(())
}

/// Combines two whole numbers.
fn whole<T: Ord>(
    function: Function,
    x: T,
    y: T,
    add: impl FnOnce(T, T) -> T,
    multiply: impl FnOnce(T, T) -> T,
) -> T {
    match function {
        Function::Max => x.max(y),
        Function::Min => x.min(y),
        Function::Sum => add(x, y),
        Function::Product => multiply(x, y),
    }
}

/// Combines two real numbers. Comparing is C's `x > y ? x : y`, which matters where one is no
/// number.
fn real<T>(function: Function, x: T, y: T) -> T
where
    T: PartialOrd + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    match function {
        Function::Max if x > y => x,
        Function::Min if x < y => x,
        Function::Max | Function::Min => y,
        Function::Sum => x + y,
        Function::Product => x * y,
    }
}

fn each<const N: usize, T>(
    data: &mut [u8],
    more: &[u8],
    read: impl Fn([u8; N]) -> T,
    write: impl Fn(T) -> [u8; N],
    combine: impl Fn(T, T) -> T,
) {
    let pairs = data.as_chunks_mut::<N>().0.iter_mut().zip(more.as_chunks::<N>().0);
    for (x, y) in pairs {
        *x = write(combine(read(*x), read(*y)));
    }
}

fn complex<const N: usize, T>(
    function: Function,
    data: &mut [u8],
    more: &[u8],
    read: impl Fn([u8; N]) -> T,
    write: impl Fn(T) -> [u8; N],
) where
    T: Copy
        + PartialOrd
        + std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>,
{
    let numbers = data.as_chunks_mut::<N>().0.as_chunks_mut::<2>().0;
    for (x, y) in numbers.iter_mut().zip(more.as_chunks::<N>().0.as_chunks::<2>().0) {
        let ((a, b), (c, d)) = ((read(x[0]), read(x[1])), (read(y[0]), read(y[1])));
        let (left, right) = (a * a + b * b, c * c + d * d);
        let (real, imaginary) = match function {
            Function::Max if right > left => (c, d),
            Function::Min if right < left => (c, d),
            Function::Max | Function::Min => (a, b),
            Function::Sum => (a + c, b + d),
            Function::Product => (a * c - b * d, a * d + b * c),
        };
        *x = [write(real), write(imaginary)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<const N: usize, T: Copy>(
        function: Function,
        data_type: i32,
        values: [&[T]; 2],
        write: fn(T) -> [u8; N],
    ) -> Vec<u8> {
        let bytes =
            |values: &[T]| values.iter().flat_map(|value| write(*value)).collect::<Vec<u8>>();
        let mut data = bytes(values[0]);
        built_in(function, data_type, &mut data, &bytes(values[1])).unwrap();
        data
    }

    fn bytes_of<const N: usize, T: Copy>(values: &[T], write: fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| write(*value)).collect()
    }

    #[test]
    fn values_are_combined() {
        use Function::{Max, Min, Product, Sum};
        let (a, b): (&[i32], &[i32]) = (&[1, -5, i32::MAX], &[4, -6, 1]);
        for (function, result) in [
            (Max, [4, -5, i32::MAX]),
            (Min, [1, -6, 1]),
            (Sum, [5, -11, i32::MIN]),
            (Product, [4, 30, i32::MAX]),
        ] {
            let got = reduced(function, 3, [a, b], i32::to_ne_bytes);
            assert_eq!(got, bytes_of(&result, i32::to_ne_bytes), "{function:?}");
        }
        // (1 + 2i)(3 − i) = 5 + 5i; |3 − i| > |1 + 2i|.
        let (a, b): (&[f64], &[f64]) = (&[1.0, 2.0], &[3.0, -1.0]);
        for (function, result) in
            [(Max, [3.0, -1.0]), (Min, [1.0, 2.0]), (Sum, [4.0, 1.0]), (Product, [5.0, 5.0])]
        {
            let got = reduced(function, 7, [a, b], f64::to_ne_bytes);
            assert_eq!(got, bytes_of(&result, f64::to_ne_bytes), "{function:?}");
        }
    }

    #[test]
    fn bytes_are_compared_but_not_added() {
        let mut data = [3, 9];
        built_in(Function::Max, 1, &mut data, &[7, 2]).unwrap();
        assert_eq!(data, [7, 9]);
        assert_eq!(built_in(Function::Sum, 1, &mut data, &[7, 2]), Err(Code::BadParam));
        assert_eq!(built_in(Function::Max, 9, &mut data, &[7, 2]), Err(Code::BadParam));
        assert_eq!(size_of(8), Ok(8));
        assert_eq!(size_of(9), Err(Code::BadParam));
    }

    #[test]
    fn values_of_every_type_are_combined() {
        use Function::{Max, Min, Product, Sum};
        macro_rules! combined {
            ($kind:literal, $type:ty, $a:expr, $b:expr, $($function:ident $result:expr),*) => {
                $(
                    let got = reduced($function, $kind, [&$a, &$b], <$type>::to_ne_bytes);
                    assert_eq!(got, bytes_of(&$result, <$type>::to_ne_bytes), "{:?}", $function);
                )*
            };
        }
        combined!(
            2, i16, [7, -3], [-2, 4],
            Max [7, 4], Min [-2, -3], Sum [5, 1], Product [-14, -12]
        );
        combined!(
            8, i64, [1 << 40, -3], [5, 4],
            Max [1 << 40, 4], Min [5, -3], Sum [(1 << 40) + 5, 1], Product [5 << 40, -12]
        );
        combined!(
            4, f32, [1.5, -3.0], [2.0, -4.0],
            Max [2.0, -3.0], Min [1.5, -4.0], Sum [3.5, -7.0], Product [3.0, 12.0]
        );
        combined!(
            6, f64, [1.5, -3.0], [2.0, -4.0],
            Max [2.0, -3.0], Min [1.5, -4.0], Sum [3.5, -7.0], Product [3.0, 12.0]
        );
        // (2 + 3i)(5 + 7i) = 10 - 21 + (14 + 15)i; the second is (5 + 1i)(1 + 2i).
        combined!(
            5, f32, [2.0, 3.0, 5.0, 1.0], [5.0, 7.0, 1.0, 2.0],
            Max [5.0, 7.0, 5.0, 1.0], Min [2.0, 3.0, 1.0, 2.0],
            Sum [7.0, 10.0, 6.0, 3.0], Product [-11.0, 29.0, 3.0, 11.0]
        );
        // Of two as long the caller's stays; length counts both parts.
        combined!(
            7, f64, [3.0, 4.0, 0.0, 5.0, 1.0, 4.0], [5.0, 0.0, 3.0, 3.0, 3.0, 3.0],
            Max [3.0, 4.0, 0.0, 5.0, 3.0, 3.0], Min [3.0, 4.0, 3.0, 3.0, 1.0, 4.0]
        );
        let mut bytes = [3, 9];
        built_in(Min, 1, &mut bytes, &[7, 2]).unwrap();
        assert_eq!(bytes, [3, 2]);
        for (kind, size) in [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (6, 8), (7, 16), (8, 8)] {
            assert_eq!(size_of(kind), Ok(size));
        }
    }

    #[test]
    fn an_operator_tells_its_failure_by_a_code() {
        unsafe extern "C" fn fails(
            _: *mut i32,
            _: *mut u8,
            _: *mut u8,
            count: *mut i32,
            code: *mut i32,
        ) {
            // SAFETY: places of the caller.
            unsafe { *code = *count };
        }
        unsafe extern "C" fn refuses(
            _: *mut i32,
            _: *mut u8,
            _: *mut u8,
            _: *mut i32,
            code: *mut i32,
        ) {
            // SAFETY: a place of the caller.
            unsafe { *code -= 6 };
        }
        let of =
            |len: usize, element| apply(fails, 3, &mut vec![0; len], &mut vec![0; len], element);
        assert_eq!(of(8, Element::Int), Ok(()), "a count is no code");
        let refused = apply(refuses, 3, &mut [0; 4], &mut [0; 4], Element::Int);
        assert_eq!(refused, Err(Code::NoHost));
    }
}
