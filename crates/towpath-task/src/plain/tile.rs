//! Parts of arrays that do not lie in one piece.

use super::Plain;

/// Part of an array: `rows` runs of `columns` values, one beginning every `stride` values. A block
/// of a matrix, one of its columns, an edge of a halo, every third value: whatever MPI calls a
/// vector.
///
/// ```
/// use towpath_task::plain::Tile;
/// // Three rows of four.
/// let matrix: Vec<f64> = (0..12).map(f64::from).collect();
/// let block = Tile::new(&matrix[5..], 2, 2, 4);
/// assert_eq!(block.to_vec(), [5.0, 6.0, 9.0, 10.0]);
/// assert_eq!(Tile::column(&matrix, 4, 3).to_vec(), [3.0, 7.0, 11.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// The same, to be received into.
#[derive(Debug)]
pub struct TileMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// Values from the first to the last of a tile. Panics where rows overlap, or reach beyond `len`.
fn span(len: usize, rows: usize, columns: usize, stride: usize) -> usize {
    assert!(rows <= 1 || columns <= stride, "rows of {columns} that begin every {stride}");
    let before = rows.saturating_sub(1).checked_mul(stride);
    let span = before.and_then(|before| before.checked_add(columns));
    let span = if rows == 0 { Some(0) } else { span };
    let fits = span.filter(|span| *span <= len);
    fits.unwrap_or_else(|| {
        panic!("{rows} rows of {columns} that begin every {stride} in an array of {len}")
    })
}

impl<'a, T: Plain> Tile<'a, T> {
    /// From the beginning of `data`. Panics where it reaches beyond its end, or rows overlap.
    pub fn new(data: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        let data = &data[..span(data.len(), rows, columns, stride)];
        Self { data, rows, columns, stride }
    }

    /// A column of a matrix whose rows have `width` values and lie one behind the other.
    pub fn column(matrix: &'a [T], width: usize, column: usize) -> Self {
        assert!(column < width, "column {column} of {width}");
        Self::new(&matrix[column.min(matrix.len())..], matrix.len() / width, 1, width)
    }

    /// How many values it has.
    pub const fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// True when it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its rows.
    pub fn rows(&self) -> impl Iterator<Item = &'a [T]> {
        let Self { data, rows, columns, stride } = *self;
        (0..rows).map(move |row| &data[row * stride..][..columns])
    }

    /// All of it, where it lies in one piece.
    pub fn as_slice(&self) -> Option<&'a [T]> {
        (self.rows <= 1 || self.columns == self.stride).then_some(self.data)
    }

    /// Its values, row by row.
    pub fn to_vec(&self) -> Vec<T> {
        self.rows().flatten().copied().collect()
    }
}

impl<'a, T: Plain> TileMut<'a, T> {
    /// As [`Tile::new`].
    pub fn new(data: &'a mut [T], rows: usize, columns: usize, stride: usize) -> Self {
        let span = span(data.len(), rows, columns, stride);
        Self { data: &mut data[..span], rows, columns, stride }
    }

    /// As [`Tile::column`].
    pub fn column(matrix: &'a mut [T], width: usize, column: usize) -> Self {
        assert!(column < width, "column {column} of {width}");
        let (at, rows) = (column.min(matrix.len()), matrix.len() / width);
        Self::new(&mut matrix[at..], rows, 1, width)
    }

    /// How many values it has.
    pub const fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// True when it has none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its rows.
    pub fn rows(&mut self) -> impl Iterator<Item = &mut [T]> {
        let columns = self.columns;
        // One row alone may be longer than a stride.
        let stride = self.stride.max(columns).max(1);
        // The last row may be shorter than a stride; a tile without columns has no data.
        let rows = self.data.chunks_mut(stride).take(self.rows);
        rows.map(move |row| &mut row[..columns])
    }
}
