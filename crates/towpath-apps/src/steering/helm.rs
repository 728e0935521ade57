//! A panel that the root shows, where a machine is up, and standard input: both give parameters
//! other values between rounds.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};

use anyhow::bail;
use towpath::task::panel::{Panel, PanelError, Parameter, ParameterId, SeriesId};

use crate::exchange::{Arrays, Exchange};

/// Lines that nobody has taken yet are not read on.
const LINES_MAX: usize = 1_000_000;

/// The values of parameters, the same at all ranks after [`Helm::round`].
pub(super) struct Helm {
    pub(super) panel: Panel,
    input: Option<Receiver<String>>,
    is_shown: bool,
    /// Values of all parameters after the last round.
    agreed: Vec<f64>,
    /// What was changed, and what could not be.
    pub(super) log: Vec<String>,
}

fn values(panel: &Panel) -> Vec<f64> {
    panel.parameters().iter().map(Parameter::value).collect()
}

fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        for line in lines.take(LINES_MAX) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

impl Helm {
    /// With a panel that has all its parameters and series: all ranks make it alike.
    pub(super) fn new(panel: Panel) -> Self {
        let agreed = values(&panel);
        Self { panel, input: None, is_shown: false, agreed, log: Vec::new() }
    }

    /// Lines of standard input are changes (`volatility=0.4`), at the root.
    pub(super) fn listen(&mut self, exchange: &dyn Exchange) {
        self.input = (exchange.rank() == 0).then(lines);
    }

    /// Shows the panel, where there is a machine. One of its name is an error where `needed`.
    pub(super) fn show(&mut self, exchange: &mut dyn Exchange, needed: bool) -> anyhow::Result<()> {
        if exchange.rank() != 0 {
            return Ok(());
        }
        let Some(task) = exchange.task() else { return Ok(()) };
        match self.panel.show(task) {
            Ok(()) => self.is_shown = true,
            Err(why @ PanelError::Shown(_)) if !needed => {
                let why = why.to_string();
                self.log.push(format!("not shown: {}", why.lines().next().unwrap_or_default()));
            }
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    /// A change in words.
    pub(super) fn take(&mut self, line: &str) {
        if let Err(why) = self.change(line) {
            self.log.push(format!("left out: {why}"));
        }
    }

    fn change(&mut self, line: &str) -> anyhow::Result<()> {
        let all = || self.panel.parameters().iter().map(Parameter::name).collect::<Vec<_>>();
        let Some((name, value)) = line.split_once('=') else {
            bail!("`{line}` is no change: NAME=VALUE, NAME one of {}", all().join(", "));
        };
        let Some(id) = self.panel.parameter_named(name.trim()) else {
            bail!("no parameter `{}`: one of {}", name.trim(), all().join(", "));
        };
        let value = self.panel.parameters()[usize::from(id.0)].read(value)?;
        Ok(self.panel.set(id, value)?)
    }

    /// Takes what has come; from here on all ranks have the root's values, which come back.
    pub(super) fn round(&mut self, exchange: &mut dyn Exchange) -> anyhow::Result<Vec<f64>> {
        if exchange.rank() == 0 {
            while let Some(Ok(line)) = self.input.as_ref().map(Receiver::try_recv) {
                self.take(&line);
            }
            if let Some(task) = exchange.task().filter(|_| self.is_shown) {
                self.panel.serve(task)?;
            }
        }
        let mut now = values(&self.panel);
        Arrays::<f64>::broadcast_slice(exchange, 0, &mut now)?;
        let before = std::mem::replace(&mut self.agreed, now.clone());
        for (number, (old, new)) in before.iter().zip(&now).enumerate() {
            if old.to_bits() != new.to_bits() {
                self.panel.set(ParameterId(number as u16), *new)?;
                let parameter = &self.panel.parameters()[number];
                let text = format!("{} = {}", parameter.name(), parameter.text_of(*new));
                self.log.push(text);
            }
        }
        Ok(now)
    }

    /// What cannot be together is taken back, at all ranks alike.
    pub(super) fn back(&mut self, values: &[f64], why: &str) -> anyhow::Result<()> {
        self.log.push(format!("left out: {why}"));
        self.agreed = values.to_vec();
        for (number, value) in values.iter().enumerate() {
            self.panel.set(ParameterId(number as u16), *value)?;
        }
        Ok(())
    }

    /// Tells those who follow.
    pub(super) fn push(
        &mut self,
        exchange: &mut dyn Exchange,
        series: SeriesId,
        at: f64,
        values: &[f64],
    ) -> anyhow::Result<()> {
        if let Some(task) = exchange.task().filter(|_| self.is_shown) {
            self.panel.push(task, series, at, values)?;
        }
        Ok(())
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, exchange: &mut dyn Exchange) -> anyhow::Result<()> {
        if let Some(task) = exchange.task().filter(|_| self.is_shown) {
            self.panel.finish(task)?;
        }
        Ok(())
    }
}
