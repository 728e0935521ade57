//! What is priced, checked.

/// A value that no model can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}: it must be {limit}")]
pub(crate) struct ContractError {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
    pub(crate) limit: &'static str,
}

/// Buying, or selling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Put,
}

/// An option on a stock with continuous yield. All finite; spot, strike, maturity, volatility > 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Contract {
    pub(crate) kind: Kind,
    /// S.
    pub(crate) spot: f64,
    /// K.
    pub(crate) strike: f64,
    /// r, continuously compounded, a year.
    pub(crate) rate: f64,
    /// q, the same way.
    pub(crate) carry: f64,
    /// σ, per square root of a year.
    pub(crate) volatility: f64,
    /// T in years.
    pub(crate) maturity: f64,
}

/// A dividend in cash: 0 < time < maturity, 0 ≤ amount < spot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dividend {
    pub(crate) amount: f64,
    /// Years from now.
    pub(crate) time: f64,
}

fn within(
    name: &'static str,
    value: f64,
    good: bool,
    limit: &'static str,
) -> Result<(), ContractError> {
    // NaN is never good.
    if good { Ok(()) } else { Err(ContractError { name, value, limit }) }
}

impl Contract {
    pub(crate) fn checked(self) -> Result<Self, ContractError> {
        let positive = |name, value: f64| {
            within(name, value, value > 1e-8 && value < 1e8, "between 1e-8 and 1e8")
        };
        positive("the spot price", self.spot)?;
        positive("the strike price", self.strike)?;
        positive("the volatility", self.volatility)?;
        positive("the maturity", self.maturity)?;
        for (name, value) in [("the rate", self.rate), ("the yield", self.carry)] {
            within(name, value, value.abs() <= 10.0, "between -10 and 10")?;
        }
        within("the volatility", self.volatility, self.volatility <= 100.0, "at most 100")?;
        within("the maturity", self.maturity, self.maturity <= 1000.0, "at most 1000 years")?;
        Ok(self)
    }
}

impl Dividend {
    pub(crate) fn checked(self, of: &Contract) -> Result<Self, ContractError> {
        let (time, amount) = (self.time, self.amount);
        let good = time > 0.0 && time < of.maturity;
        within("the dividend's time", time, good, "after now and before maturity")?;
        let good = amount >= 0.0 && amount < of.spot;
        within("the dividend", amount, good, "from 0 to below the spot price")?;
        Ok(self)
    }

    /// The spot price without the dividend's present value (escrowed model).
    pub(crate) fn escrowed(&self, of: &Contract) -> f64 {
        of.spot - self.amount * (-of.rate * self.time).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        let good = Contract {
            kind: Kind::Call,
            spot: 90.0,
            strike: 100.0,
            rate: 0.15,
            carry: 0.0,
            volatility: 0.3,
            maturity: 0.25,
        };
        assert!(good.checked().is_ok());
        let said = |contract: Contract| contract.checked().unwrap_err().to_string();
        let nan = said(Contract { volatility: f64::NAN, ..good });
        assert_eq!(nan, "the volatility is NaN: it must be between 1e-8 and 1e8");
        assert!(said(Contract { spot: -1.0, ..good }).starts_with("the spot price is -1"));
        assert!(said(Contract { maturity: f64::INFINITY, ..good }).contains("inf"));
        assert!(said(Contract { rate: f64::NAN, ..good }).starts_with("the rate is NaN"));
        let late = Dividend { amount: 1.0, time: 0.3 }.checked(&good).unwrap_err();
        assert_eq!(late.name, "the dividend's time");
    }
}
