//! Panels: parameters that others change while a task computes, and results that they follow.

use std::ffi::{c_char, c_int};
use std::ptr::null;

use towpath_task::panel::{
    BoardError, Form, Kind, Panel, PanelError, Parameter, ParameterId, Series, SeriesId, Told, View,
};
use towpath_task::{TaskId, Team};

use crate::code::{Code, Failure};
use crate::given::{self, Out, field, needed, put, timeout};
use crate::handle::{Done, Handle, Inner, both, with};

/// Bytes of a name in the header's structures, with the zero.
const TEXT: usize = 72;

/// `towpath_parameter` of the header.
#[repr(C)]
pub(crate) struct CParameter {
    name: *const c_char,
    unit: *const c_char,
    choices: *const *const c_char,
    value: f64,
    least: f64,
    most: f64,
    kind: u32,
    reserved: u32,
}

/// `towpath_series` of the header.
#[repr(C)]
pub(crate) struct CSeries {
    name: *const c_char,
    unit: *const c_char,
    over: *const c_char,
    curves: *const *const c_char,
    rows: u32,
    columns: u32,
    keep: u32,
    reserved: u32,
}

/// `towpath_shown` of the header.
#[repr(C)]
pub(crate) struct CShown {
    value: f64,
    least: f64,
    most: f64,
    kind: u32,
    count: u32,
    name: [c_char; TEXT],
    unit: [c_char; TEXT],
    over: [c_char; TEXT],
}

/// `towpath_told` of the header.
#[repr(C)]
pub(crate) struct CTold {
    kind: u32,
    number: u32,
    value: f64,
    values: *const f64,
    count: usize,
    lost: u64,
    by: u64,
}

/// `towpath_view` of the header.
pub(crate) struct CView {
    view: View,
    /// What the last `towpath_told` points to.
    values: Vec<f64>,
}

/// Kinds of parameters, as in the header; series are curves or fields.
const REAL: u32 = 1;
const WHOLE: u32 = 2;
const SWITCH: u32 = 3;
const CHOICE: u32 = 4;
const CURVES: u32 = 5;
const FIELD: u32 = 6;
/// What is told, as in the header.
const CHANGED: u32 = 1;
const POINT: u32 = 2;
const OVER: u32 = 3;

impl From<BoardError> for Failure {
    fn from(e: BoardError) -> Self {
        let code = match &e {
            BoardError::Limit { .. } => Code::Limit,
            BoardError::None { .. } => Code::NotFound,
            BoardError::Twice(_) => Code::Exists,
            _ => Code::Argument,
        };
        Self { code, why: e.to_string() }
    }
}

impl From<PanelError> for Failure {
    fn from(e: PanelError) -> Self {
        let code = match e {
            PanelError::Board(e) => return e.into(),
            PanelError::Ask(e) => return e.into(),
            PanelError::Send(e) => return e.into(),
            PanelError::Recv(e) => return e.into(),
            PanelError::Team(e) => return e.into(),
            PanelError::None(_) | PanelError::NoParameter { .. } => Code::NotFound,
            PanelError::Shown(_) => Code::Exists,
            PanelError::Version { .. } => Code::Mismatch,
            PanelError::Ended(_) => Code::NoTask,
            PanelError::Over { .. } => Code::Closed,
            PanelError::Silent { .. } => Code::None,
            PanelError::Refused(_) => Code::Limit,
            PanelError::Nonsense { .. } => Code::Unexpected,
            _ => Code::Argument,
        };
        Self { code, why: e.to_string() }
    }
}

/// A text that may be left out.
///
/// # Safety
/// `text` is null or a string.
unsafe fn text<'a>(text: *const c_char, what: &str, usual: &'a str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    if text.is_null() { Ok(usual) } else { unsafe { given::name(text, what) } }
}

/// Strings up to a null pointer; more than `max` are too many anyway.
///
/// # Safety
/// `all` is null or such a list.
unsafe fn texts<'a>(
    all: *const *const c_char,
    max: usize,
    what: &str,
) -> Result<Vec<&'a str>, Failure> {
    let mut texts = Vec::new();
    while !all.is_null() && texts.len() <= max {
        // SAFETY: the list has not ended before this place.
        let next = unsafe { *all.add(texts.len()) };
        if next.is_null() {
            break;
        }
        // SAFETY: the caller's promise.
        texts.push(unsafe { given::name(next, what) }?);
    }
    Ok(texts)
}

impl CParameter {
    /// # Safety
    /// Its texts are as the header demands.
    unsafe fn read(&self) -> Result<Parameter, Failure> {
        // SAFETY: the caller's promise.
        let (name, unit, choices) = unsafe {
            let choices = texts(self.choices, towpath_task::panel::CHOICES_MAX, "a choice")?;
            (given::name(self.name, "the name")?, text(self.unit, "the unit", "")?, choices)
        };
        let whole = self.value as i64;
        let parameter = match self.kind {
            REAL => Parameter::real(name, self.value),
            WHOLE if (whole as f64 - self.value).abs() <= 0.0 => Parameter::whole(name, whole),
            WHOLE => {
                return Err(Failure::argument(format!("{name}: {} is not whole", self.value)));
            }
            SWITCH => Parameter::switch(name, self.value != 0.0),
            CHOICE => Parameter::choice(name, &choices),
            kind => return Err(Failure::argument(format!("kind {kind}: there are 1 to 4"))),
        };
        let parameter = parameter.unit(unit);
        let is_limited = self.least != 0.0 || self.most != 0.0;
        Ok(if is_limited { parameter.between(self.least, self.most) } else { parameter })
    }
}

impl CSeries {
    /// # Safety
    /// Its texts are as the header demands.
    unsafe fn read(&self) -> Result<Series, Failure> {
        // SAFETY: the caller's promise.
        let (name, unit, over, curves) = unsafe {
            let curves = texts(self.curves, towpath_task::panel::SERIES_MAX, "a curve")?;
            let (unit, over) = (text(self.unit, "the unit", "")?, text(self.over, "over", "step")?);
            (given::name(self.name, "the name")?, unit, over, curves)
        };
        let series = if self.curves.is_null() {
            Series::field(name, self.rows, self.columns)
        } else {
            Series::curves(name, &curves)
        };
        Ok(series.unit(unit).over(over).keep(self.keep))
    }
}

fn parameter_id(number: u32) -> ParameterId {
    ParameterId(u16::try_from(number).unwrap_or(u16::MAX))
}

fn series_id(number: u32) -> SeriesId {
    SeriesId(u16::try_from(number).unwrap_or(u16::MAX))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_new(
    handle: Option<&Handle>,
    name: *const c_char,
    out: Out<'_, *mut Panel>,
) -> c_int {
    with(handle, |_| {
        let out = needed(out, "the place for the panel")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header asks for a string.
        let panel = Panel::new(unsafe { given::name(name, "the name") }?)?;
        out.write(Box::into_raw(Box::new(panel)));
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_free(panel: *mut Panel) {
    if !panel.is_null() {
        // SAFETY: the header says that it comes from `towpath_panel_new` and is not used any more.
        drop(unsafe { Box::from_raw(panel) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_parameter(
    handle: Option<&Handle>,
    panel: *mut Panel,
    about: Option<&CParameter>,
    number: Out<'_, u32>,
) -> c_int {
    let call = |_: &mut Inner, panel: &mut Panel| {
        let about = about.ok_or_else(|| Failure::argument("the parameter is null"))?;
        // SAFETY: the header's demands of texts.
        let id = panel.parameter(unsafe { about.read() }?)?;
        put(number, id.0.into());
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_series(
    handle: Option<&Handle>,
    panel: *mut Panel,
    about: Option<&CSeries>,
    number: Out<'_, u32>,
) -> c_int {
    let call = |_: &mut Inner, panel: &mut Panel| {
        let about = about.ok_or_else(|| Failure::argument("the series is null"))?;
        // SAFETY: the header's demands of texts.
        let id = panel.series(unsafe { about.read() }?)?;
        put(number, id.0.into());
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_show(handle: Option<&Handle>, panel: *mut Panel) -> c_int {
    let call = |inner: &mut Inner, panel: &mut Panel| {
        panel.show(&mut inner.task)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_serve(
    handle: Option<&Handle>,
    panel: *mut Panel,
    changes: Out<'_, u32>,
) -> c_int {
    let call = |inner: &mut Inner, panel: &mut Panel| {
        let changed = panel.serve(&mut inner.task)?;
        put(changes, u32::try_from(changed).unwrap_or(u32::MAX));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_agree(
    handle: Option<&Handle>,
    panel: *mut Panel,
    team: *mut Team,
    changed: Out<'_, c_int>,
) -> c_int {
    let call = |inner: &mut Inner, panel: &mut Panel| {
        // SAFETY: null, or a team that nobody else uses, as the header demands.
        let team = unsafe { team.as_mut() };
        let team = team.ok_or_else(|| Failure::argument("the team is null"))?;
        let is_new = panel.agree(&mut inner.task, team)?;
        put(changed, is_new.into());
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_value(
    handle: Option<&Handle>,
    panel: *mut Panel,
    number: u32,
    value: Out<'_, f64>,
) -> c_int {
    let call = |_: &mut Inner, panel: &mut Panel| {
        put(value, panel.value(parameter_id(number))?);
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_set(
    handle: Option<&Handle>,
    panel: *mut Panel,
    number: u32,
    value: f64,
) -> c_int {
    let call = |_: &mut Inner, panel: &mut Panel| {
        panel.set(parameter_id(number), value)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_push(
    handle: Option<&Handle>,
    panel: *mut Panel,
    series: u32,
    at: f64,
    values: *const f64,
    count: usize,
) -> c_int {
    let call = |inner: &mut Inner, panel: &mut Panel| {
        // SAFETY: the header asks for so many values.
        let values = unsafe { given::slice(values, count, "the values") }?;
        panel.push(&mut inner.task, series_id(series), at, values)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_panel_finish(
    handle: Option<&Handle>,
    panel: *mut Panel,
    patience: i64,
) -> c_int {
    let call = |inner: &mut Inner, panel: &mut Panel| {
        let patience = timeout(patience).unwrap_or(std::time::Duration::from_hours(1));
        panel.finish_within(&mut inner.task, patience)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of panels.
    unsafe { both(handle, panel, "panel", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_open(
    handle: Option<&Handle>,
    name: *const c_char,
    timeout_ns: i64,
    out: Out<'_, *mut CView>,
) -> c_int {
    with(handle, |inner| {
        let out = needed(out, "the place for the view")?;
        out.write(std::ptr::null_mut());
        // SAFETY: the header asks for a string.
        let name = unsafe { given::name(name, "the name") }?;
        let patience = timeout(timeout_ns).unwrap_or(std::time::Duration::MAX);
        let view = View::open_within(&mut inner.task, name, patience)?;
        out.write(Box::into_raw(Box::new(CView { view, values: Vec::new() })));
        Ok(Done::Yes)
    })
}

fn shown(parameter: &Parameter) -> CShown {
    let (kind, least, most, count) = match parameter.kind() {
        Kind::Real(least, most) => (REAL, *least, *most, 0),
        Kind::Whole(least, most) => (WHOLE, *least, *most, 0),
        Kind::Switch => (SWITCH, 0.0, 1.0, 0),
        Kind::Choice(choices) => (CHOICE, 0.0, choices.len() as f64 - 1.0, choices.len()),
        _ => (0, 0.0, 0.0, 0),
    };
    CShown {
        value: parameter.value(),
        least,
        most,
        kind,
        count: count as u32,
        name: field(parameter.name()),
        unit: field(parameter.unit_text()),
        over: field(""),
    }
}

fn shown_series(series: &Series) -> CShown {
    let (kind, rows, columns) = match series.form() {
        Form::Curves(curves) => (CURVES, 0, curves.len() as u32),
        Form::Field { rows, columns } => (FIELD, *rows, *columns),
        _ => (0, 0, 0),
    };
    CShown {
        value: 0.0,
        least: rows.into(),
        most: columns.into(),
        kind,
        count: series.values() as u32,
        name: field(series.name()),
        unit: field(series.unit_text()),
        over: field(series.over_text()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_parameter(
    handle: Option<&Handle>,
    view: *mut CView,
    number: u32,
    out: Out<'_, CShown>,
) -> c_int {
    let call = |_: &mut Inner, view: &mut CView| {
        let Some(parameter) = view.view.parameters().get(number as usize) else {
            return Ok(Done::No);
        };
        put(out, shown(parameter));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of views.
    unsafe { both(handle, view, "view", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_series(
    handle: Option<&Handle>,
    view: *mut CView,
    number: u32,
    out: Out<'_, CShown>,
) -> c_int {
    let call = |_: &mut Inner, view: &mut CView| {
        let Some(series) = view.view.series().get(number as usize) else { return Ok(Done::No) };
        put(out, shown_series(series));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of views.
    unsafe { both(handle, view, "view", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_name(
    handle: Option<&Handle>,
    view: *mut CView,
    shown: Option<&CShown>,
    number: u32,
    which: u32,
    out: Out<'_, [c_char; TEXT]>,
) -> c_int {
    let call = |_: &mut Inner, view: &mut CView| {
        let shown = shown.ok_or_else(|| Failure::argument("what is shown is null"))?;
        let (parameters, series) = (view.view.parameters(), view.view.series());
        let names: &[String] = match shown.kind {
            CHOICE => match parameters.get(number as usize).map(Parameter::kind) {
                Some(Kind::Choice(choices)) => choices,
                _ => &[],
            },
            CURVES => match series.get(number as usize).map(Series::form) {
                Some(Form::Curves(curves)) => curves,
                _ => &[],
            },
            _ => &[],
        };
        let Some(name) = names.get(which as usize) else { return Ok(Done::No) };
        put(out, field(name));
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of views.
    unsafe { both(handle, view, "view", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_set(
    handle: Option<&Handle>,
    view: *mut CView,
    name: *const c_char,
    value: f64,
    timeout_ns: i64,
) -> c_int {
    let call = |inner: &mut Inner, view: &mut CView| {
        // SAFETY: the header asks for a string.
        let name = unsafe { given::name(name, "the name") }?;
        let patience = timeout(timeout_ns).unwrap_or(std::time::Duration::MAX);
        view.view.set_within(&mut inner.task, name, value, patience)?;
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of views.
    unsafe { both(handle, view, "view", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_next(
    handle: Option<&Handle>,
    view: *mut CView,
    timeout_ns: i64,
    out: Out<'_, CTold>,
) -> c_int {
    let call = |inner: &mut Inner, view: &mut CView| {
        let nothing =
            CTold { kind: OVER, number: 0, value: 0.0, values: null(), count: 0, lost: 0, by: 0 };
        let told = view.view.next(&mut inner.task, timeout(timeout_ns))?;
        let Some(told) = told else { return Ok(Done::No) };
        let told = match told {
            Told::Changed { parameter, value, by } => {
                let by = by.map_or(0, TaskId::to_raw);
                CTold { kind: CHANGED, number: parameter.into(), value, by, ..nothing }
            }
            Told::Point(point) => {
                view.values = point.values;
                let (values, count) = (view.values.as_ptr(), view.values.len());
                let (number, value, lost) = (point.series.into(), point.at, point.lost);
                CTold { kind: POINT, number, value, values, count, lost, ..nothing }
            }
            // The answer to a question that nobody waited for any more says nothing.
            Told::Answer { .. } => return Ok(Done::No),
            Told::Over(why) => CTold { number: why as u32, ..nothing },
            _ => nothing,
        };
        put(out, told);
        Ok(Done::Yes)
    };
    // SAFETY: the header's demands of views.
    unsafe { both(handle, view, "view", call) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_close(handle: Option<&Handle>, view: *mut CView) -> c_int {
    with(handle, |inner| {
        if view.is_null() {
            return Ok(Done::Yes);
        }
        // SAFETY: the header says that it comes from `towpath_view_open` and is not used any more.
        let view = unsafe { Box::from_raw(view) };
        view.view.close(&mut inner.task)?;
        Ok(Done::Yes)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn towpath_view_free(view: *mut CView) {
    if !view.is_null() {
        // SAFETY: as for closing.
        drop(unsafe { Box::from_raw(view) });
    }
}
