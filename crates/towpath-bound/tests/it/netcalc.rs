//! The reference cases of `tests/it/data/netcalc_cases.json`: figures of NetCal/DNC, Nancy and
//! panco, and own evaluations of published formulas (`source` stands beside each).

use std::collections::BTreeMap;

use serde_json::Value;
use towpath_bound::{
    Analysis, Bounding, CrossTraffic, Curve, Envelope, Flow, Interest, Method, Multiplexing,
    Network, RateLatency, Rational, Server, TokenBucket, service,
};

fn cases() -> Vec<Value> {
    let text = include_str!("data/netcalc_cases.json");
    let file: Value = serde_json::from_str(text).expect("the case file is JSON");
    file["cases"].as_array().expect("cases").clone()
}

fn of_kind(kind: &str) -> Vec<Value> {
    let found: Vec<Value> = cases().into_iter().filter(|case| case["kind"] == kind).collect();
    assert!(!found.is_empty(), "no case of kind {kind}");
    found
}

fn number(value: &Value) -> Rational {
    value.as_str().expect("numbers are text").parse().expect("an exact number")
}

fn network(case: &Value, order: Multiplexing) -> Network {
    let servers: Vec<Server> = case["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| {
            let name = server["id"].as_str().unwrap();
            Server::new(name, number(&server["rate"]), number(&server["latency"]), order)
        })
        .collect();
    let index: BTreeMap<&str, usize> = case["servers"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(index, server)| (server["id"].as_str().unwrap(), index))
        .collect();
    let flows = case["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flow| {
            let hops = flow["path"].as_array().unwrap();
            let path = hops.iter().map(|hop| index[hop.as_str().unwrap()]).collect();
            let bucket = Envelope::token_bucket(number(&flow["rate"]), number(&flow["burst"]));
            Flow::new(flow["id"].as_str().unwrap(), bucket, path)
        })
        .collect();
    Network::new(servers, flows).expect("a valid network")
}

fn flow_index(network: &Network, name: &Value) -> usize {
    network.flows().iter().position(|flow| flow.name == name.as_str().unwrap()).unwrap()
}

fn method(expected: &Value) -> Method {
    let bounding = match expected["cross_traffic"].as_str().unwrap() {
        "pmoo" => Bounding::CommonPath,
        _ => Bounding::PerServer,
    };
    let cross = CrossTraffic { bounding, interest: Interest::LeftOut };
    match expected["analysis"].as_str().unwrap() {
        "TFA" => Method::Tfa(cross),
        "SFA" => Method::Sfa(cross),
        "PMOO" => Method::Pmoo(cross),
        other => panic!("unknown analysis {other}"),
    }
}

#[test]
fn published_figures_are_met_exactly() {
    let mut figures = 0;
    for case in of_kind("network") {
        for order in [Multiplexing::Fifo, Multiplexing::Blind] {
            let network = network(&case, order);
            let analysis = Analysis::new(&network).unwrap();
            let name = if order == Multiplexing::Fifo { "fifo" } else { "arbitrary" };
            for expected in case["expected"].as_array().unwrap() {
                if expected["multiplexing"] != name || expected["recomputed"] == false {
                    continue;
                }
                let flow = flow_index(&network, &expected["flow"]);
                let bound = analysis.bound(flow, method(expected));
                let context = format!("{} {expected}", case["id"]);
                assert_eq!(bound.delay, Some(number(&expected["delay"])), "{context}");
                assert_eq!(bound.backlog, Some(number(&expected["backlog"])), "{context}");
                figures += 2;
            }
        }
    }
    println!("{figures} figures");
    assert!(figures > 200);
}

/// More networks of `NetCal/DNC_func_tests` (LGPL-2.1 code; paths and figures only): all servers
/// β(20, 20), all flows γ(5, 25). Flow, analysis, order, cross traffic, delay, backlog.
type Figure = (usize, &'static str, &'static str, &'static str, &'static str, &'static str);
type Published = (&'static str, usize, &'static [&'static [usize]], &'static [Figure]);

const PUBLISHED: &[Published] = &[
    (
        "FF_3S_1SC_2F_1AC_2P",
        3,
        &[&[0, 2], &[0, 1, 2]],
        &[
            (0, "TFA", "arbitrary", "any", "385/3", "1900/3"),
            (0, "TFA", "fifo", "any", "485/8", "1125/2"),
            (1, "TFA", "arbitrary", "any", "470/3", "1900/3"),
            (1, "TFA", "fifo", "any", "1395/16", "1125/2"),
            (0, "SFA", "arbitrary", "any", "670/9", "3500/9"),
            (0, "SFA", "fifo", "any", "2615/48", "4625/16"),
            (1, "SFA", "arbitrary", "any", "790/9", "4100/9"),
            (1, "SFA", "fifo", "any", "3335/48", "5825/16"),
            (0, "PMOO", "arbitrary", "any", "670/9", "3500/9"),
            (1, "PMOO", "arbitrary", "any", "790/9", "4100/9"),
        ],
    ),
    (
        "FF_4S_1SC_3F_1AC_3P",
        4,
        &[&[0, 1, 3], &[2, 3], &[2, 1]],
        &[
            (0, "TFA", "arbitrary", "any", "6425/36", "6125/9"),
            (0, "TFA", "fifo", "any", "5985/64", "9425/16"),
            (1, "TFA", "arbitrary", "any", "11975/90", "6125/9"),
            (1, "TFA", "fifo", "any", "3965/64", "9425/16"),
            (2, "TFA", "arbitrary", "any", "685/6", "1475/3"),
            (2, "TFA", "fifo", "any", "885/16", "1825/4"),
            (0, "SFA", "arbitrary", "any", "875/9", "4525/9"),
            (0, "SFA", "fifo", "any", "1795/24", "3125/8"),
            (1, "SFA", "arbitrary", "any", "2095/27", "10925/27"),
            (1, "SFA", "fifo", "any", "10715/192", "18925/64"),
            (2, "SFA", "arbitrary", "any", "65", "1025/3"),
            (2, "SFA", "fifo", "any", "295/6", "525/2"),
            (0, "PMOO", "arbitrary", "any", "875/9", "4525/9"),
            (1, "PMOO", "arbitrary", "any", "2095/27", "10925/27"),
            (2, "PMOO", "arbitrary", "any", "65", "1025/3"),
        ],
    ),
    (
        "TA_3S_1SC_3F_1AC_3P",
        3,
        &[&[0, 1], &[2], &[0, 1, 2]],
        &[
            (0, "TFA", "arbitrary", "pboo", "110", "450"),
            (1, "TFA", "arbitrary", "pboo", "1405/18", "5225/9"),
            (1, "TFA", "fifo", "pboo", "2205/64", "7825/16"),
            (2, "TFA", "arbitrary", "pboo", "16925/90", "5225/9"),
            (2, "TFA", "fifo", "pboo", "5725/64", "7825/16"),
            (0, "SFA", "arbitrary", "pboo", "65", "1025/3"),
            (0, "SFA", "fifo", "pboo", "295/6", "525/2"),
            (1, "SFA", "arbitrary", "pboo", "1405/27", "7475/27"),
            (1, "SFA", "fifo", "pboo", "6695/192", "12225/64"),
            (2, "SFA", "arbitrary", "pboo", "280/3", "1450/3"),
            (2, "SFA", "fifo", "pboo", "845/12", "1475/4"),
            (0, "PMOO", "arbitrary", "pboo", "170/3", "300"),
            (1, "PMOO", "arbitrary", "pboo", "1405/27", "7475/27"),
            (2, "PMOO", "arbitrary", "pboo", "85", "1325/3"),
            (1, "TFA", "arbitrary", "pmoo", "145/2", "525"),
            (2, "TFA", "arbitrary", "pmoo", "365/2", "525"),
            (1, "SFA", "arbitrary", "pmoo", "145/3", "775/3"),
            (2, "SFA", "arbitrary", "pmoo", "280/3", "1450/3"),
            (1, "PMOO", "arbitrary", "pmoo", "145/3", "775/3"),
            (2, "PMOO", "arbitrary", "pmoo", "85", "1325/3"),
        ],
    ),
    (
        "TA_4S_1SC_2F_1AC_2P",
        4,
        &[&[0, 1, 2, 3], &[1, 2]],
        &[
            (0, "TFA", "arbitrary", "pboo", "2335/12", "1700/3"),
            (0, "TFA", "fifo", "pboo", "7985/64", "550"),
            (1, "TFA", "arbitrary", "pboo", "130", "550"),
            (1, "TFA", "fifo", "pboo", "65", "550"),
            (0, "SFA", "arbitrary", "pboo", "105", "1625/3"),
            (0, "SFA", "fifo", "pboo", "535/6", "925/2"),
            (1, "SFA", "arbitrary", "pboo", "235/3", "1225/3"),
            (1, "SFA", "fifo", "pboo", "355/6", "625/2"),
            (0, "PMOO", "arbitrary", "pboo", "290/3", "500"),
            (1, "PMOO", "arbitrary", "pboo", "190/3", "1000/3"),
            (0, "TFA", "arbitrary", "pmoo", "765/4", "550"),
        ],
    ),
    (
        "TA_2S_1SC_2F_1AC_2P",
        2,
        &[&[0, 1], &[1]],
        &[
            (0, "TFA", "arbitrary", "any", "305/4", "350"),
            (0, "TFA", "fifo", "any", "195/4", "350"),
            (1, "TFA", "arbitrary", "any", "55", "350"),
            (1, "TFA", "fifo", "any", "55/2", "350"),
            (0, "SFA", "arbitrary", "any", "50", "800/3"),
            (0, "SFA", "fifo", "any", "515/12", "925/4"),
            (1, "SFA", "arbitrary", "any", "110/3", "200"),
            (1, "SFA", "fifo", "any", "335/12", "625/4"),
            (0, "PMOO", "arbitrary", "any", "50", "800/3"),
            (1, "PMOO", "arbitrary", "any", "110/3", "200"),
        ],
    ),
    (
        "TR_7S_1SC_3F_1AC_3P",
        7,
        &[&[1, 2, 5, 6], &[0, 1, 2, 5, 6], &[3, 4, 5, 6]],
        &[
            (0, "TFA", "arbitrary", "any", "660", "1375"),
            (0, "TFA", "fifo", "any", "395/2", "1375"),
            (1, "TFA", "arbitrary", "any", "2725/4", "1375"),
            (1, "TFA", "fifo", "any", "875/4", "1375"),
            (2, "TFA", "arbitrary", "any", "1155/2", "1375"),
            (2, "TFA", "fifo", "any", "180", "1375"),
            (0, "SFA", "arbitrary", "any", "1735/6", "4375/3"),
            (0, "SFA", "fifo", "any", "165", "1675/2"),
            (1, "SFA", "arbitrary", "any", "1655/6", "4175/3"),
            (1, "SFA", "fifo", "any", "165", "1675/2"),
            (2, "SFA", "arbitrary", "any", "505/2", "1275"),
            (2, "SFA", "fifo", "any", "295/2", "750"),
            (0, "PMOO", "arbitrary", "any", "355/2", "900"),
            (1, "PMOO", "arbitrary", "any", "375/2", "950"),
            (2, "PMOO", "arbitrary", "any", "355/2", "900"),
        ],
    ),
    (
        "FF_4S_1SC_4F_1AC_4P",
        4,
        &[&[0, 1, 3], &[2, 3], &[2, 1], &[2, 0, 3]],
        &[
            (0, "TFA", "arbitrary", "pboo", "1370/3", "1400"),
            (0, "TFA", "fifo", "pboo", "3735/32", "975"),
            (1, "TFA", "arbitrary", "pboo", "395", "1400"),
            (1, "TFA", "fifo", "pboo", "155/2", "975"),
            (2, "TFA", "arbitrary", "pboo", "1105/6", "2075/3"),
            (2, "TFA", "fifo", "pboo", "1875/32", "3975/8"),
            (3, "TFA", "arbitrary", "pboo", "925/2", "1400"),
            (3, "TFA", "fifo", "pboo", "845/8", "975"),
            (0, "SFA", "arbitrary", "pboo", "580/3", "5875/6"),
            (0, "SFA", "fifo", "pboo", "1525/16", "7825/16"),
            (1, "SFA", "arbitrary", "pboo", "345/2", "875"),
            (1, "SFA", "fifo", "pboo", "575/8", "2975/8"),
            (2, "SFA", "arbitrary", "pboo", "1625/18", "4175/9"),
            (2, "SFA", "fifo", "pboo", "1695/32", "8875/32"),
            (3, "SFA", "arbitrary", "pboo", "560/3", "5675/6"),
            (3, "SFA", "fifo", "pboo", "1405/16", "7225/16"),
            (0, "PMOO", "arbitrary", "pboo", "650/3", "6575/6"),
            (1, "PMOO", "arbitrary", "pboo", "345/2", "875"),
            (2, "PMOO", "arbitrary", "pboo", "305/3", "3125/6"),
            (3, "PMOO", "arbitrary", "pboo", "1145/6", "2900/3"),
            (0, "TFA", "arbitrary", "pmoo", "2765/6", "8525/6"),
            (1, "TFA", "arbitrary", "pmoo", "2395/6", "8525/6"),
            (2, "TFA", "arbitrary", "pmoo", "1105/6", "2075/3"),
            (3, "TFA", "arbitrary", "pmoo", "1400/3", "8525/6"),
            (0, "SFA", "arbitrary", "pmoo", "2345/12", "11875/12"),
            (1, "SFA", "arbitrary", "pmoo", "2095/12", "10625/12"),
            (2, "SFA", "arbitrary", "pmoo", "1625/18", "4175/9"),
            (3, "SFA", "arbitrary", "pmoo", "560/3", "5675/6"),
            (0, "PMOO", "arbitrary", "pmoo", "875/4", "4425/4"),
            (1, "PMOO", "arbitrary", "pmoo", "2095/12", "10625/12"),
            (2, "PMOO", "arbitrary", "pmoo", "305/3", "3125/6"),
            (3, "PMOO", "arbitrary", "pmoo", "1145/6", "2900/3"),
        ],
    ),
];

fn published_network(servers: usize, paths: &[&[usize]], order: Multiplexing) -> Network {
    let twenty = || Rational::integer(20);
    let servers =
        (0..servers).map(|s| Server::new(&format!("s{s}"), twenty(), twenty(), order)).collect();
    let flows = paths
        .iter()
        .enumerate()
        .map(|(flow, path)| {
            let bucket = Envelope::token_bucket(Rational::integer(5), Rational::integer(25));
            Flow::new(&format!("f{flow}"), bucket, path.to_vec())
        })
        .collect();
    Network::new(servers, flows).unwrap()
}

#[test]
fn more_published_networks_are_met_exactly() {
    let mut missed = Vec::new();
    for (name, servers, paths, figures) in PUBLISHED {
        for &(flow, analysis, order, cross, delay, backlog) in *figures {
            let multiplexing =
                if order == "fifo" { Multiplexing::Fifo } else { Multiplexing::Blind };
            let network = published_network(*servers, paths, multiplexing);
            let expected = serde_json::json!({"analysis": analysis, "cross_traffic": cross});
            let bound = Analysis::new(&network).unwrap().bound(flow, method(&expected));
            let found = (bound.delay, bound.backlog);
            let wanted = (Some(delay.parse().unwrap()), Some(backlog.parse().unwrap()));
            if found != wanted {
                missed.push(format!(
                    "{name} f{flow} {analysis} {order} {cross}: {found:?} for {wanted:?}"
                ));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// A FIFO bound is sound if it is not below the exact program (`elp`), and state of the art if it
/// is not above the polynomial one (`plp`) and the linear separated flow analysis (`sfa_lp`). The
/// figures have four decimals.
#[test]
fn fifo_bounds_lie_between_the_exact_and_the_best_published() {
    let last_digit = 0.000_051;
    for case in of_kind("network") {
        let network = network(&case, Multiplexing::Fifo);
        let analysis = Analysis::new(&network).unwrap();
        for published in case["fifo_lp_bounds"].as_array().unwrap() {
            let flow = flow_index(&network, &published["flow"]);
            let bound = analysis.bound(flow, Method::FifoProgram);
            let delay = bound.delay.as_ref().expect("a bound").to_f64();
            let context = format!("{} {published} {delay} {:?}", case["id"], bound.program);
            println!("{context}");
            for best in ["plp", "sfa_lp"] {
                assert!(delay <= published[best].as_f64().unwrap() + last_digit, "{context}");
            }
            if let Some(exact) = published["elp"].as_f64() {
                assert!(delay >= exact - last_digit, "{context}");
            }
        }
    }
}

fn curve(shape: &Value) -> Curve {
    let part = |name: &str| number(&shape[name]);
    match shape["type"].as_str().unwrap() {
        "token_bucket" => Curve::token_bucket(part("rate"), part("burst")),
        "rate_latency" => Curve::rate_latency(part("rate"), part("latency")),
        "plus_constant" => curve(&shape["curve"]).plus_constant(&part("constant")),
        "min" => {
            let curves = shape["of"].as_array().unwrap().iter().map(curve);
            curves.reduce(|a, b| a.min(&b)).unwrap()
        }
        other => panic!("unknown curve {other}"),
    }
}

#[test]
fn deviations_of_known_curves_are_met_exactly() {
    for case in of_kind("deviation") {
        let (arrival, service) = (curve(&case["arrival"]), curve(&case["service"]));
        let found = [
            ("delay", arrival.horizontal_deviation(&service)),
            ("backlog", arrival.vertical_deviation(&service)),
        ];
        for (name, deviation) in found {
            let expected = &case[name];
            if expected.is_null() {
                continue;
            }
            let expected = (expected != "inf").then(|| number(expected));
            assert_eq!(deviation, expected, "{} {name}", case["id"]);
        }
    }
}

#[test]
fn guaranteed_service_delays_are_met_exactly() {
    for case in of_kind("rfc2212_delay") {
        let part = |name: &str| number(&case[name]);
        let bucket = service::RsvpBucket {
            rate: part("r"),
            burst: part("b"),
            peak: part("p"),
            packet: part("M"),
        };
        let delay = service::rfc2212_delay(&bucket, &part("R"), &part("Ctot"), &part("Dtot"));
        assert_eq!(delay.unwrap(), part("delay"), "{}", case["id"]);
    }
}

#[test]
fn weighted_fair_queueing_delays_are_met_exactly() {
    for case in of_kind("wfq_end_to_end") {
        let part = |name: &str| number(&case[name]);
        let (links, waits) = (case["hop_rates"].as_array().unwrap(), &case["propagation"]);
        let hops: Vec<service::Hop> = links
            .iter()
            .zip(waits.as_array().unwrap())
            .map(|(link, wait)| service::Hop { link: number(link), propagation: number(wait) })
            .collect();
        let (own, any) = (part("L_session"), part("L_max"));
        let delay = service::pgps_end_to_end(&part("sigma"), &part("g"), &own, &any, &hops);
        assert_eq!(delay.unwrap(), part("delay"), "{}", case["id"]);
        // The same through the calculus: latency-rate servers, the last without its packetiser.
        let mut latencies: Vec<Rational> = hops
            .iter()
            .map(|hop| service::fair_queueing(&part("g"), &own, &any, &hop.link).unwrap().latency)
            .collect();
        let last = latencies.len() - 1;
        latencies[last] = &latencies[last] - &(&own / &part("g"));
        let bucket = TokenBucket::new(part("g"), part("sigma"));
        let (delay, _) = service::latency_rate_path(&bucket, &latencies).unwrap();
        assert_eq!(delay, part("delay"), "{} by latencies", case["id"]);
    }
}

#[test]
fn static_priority_classes_are_met_exactly() {
    for case in of_kind("static_priority") {
        let (link, frame) = (number(&case["link_rate"]), number(&case["L_max"]));
        let classes = case["classes"].as_array().unwrap();
        let order = Multiplexing::StaticPriority;
        let port = Server::new("port", link.clone(), Rational::ZERO, order);
        let flows = classes
            .iter()
            .enumerate()
            .map(|(class, parts)| {
                let bucket =
                    Envelope::token_bucket(number(&parts["rate"]), number(&parts["burst"]));
                let name = format!("class {class}");
                let class = u8::try_from(class).unwrap();
                Flow { class, frame: frame.clone(), ..Flow::new(&name, bucket, vec![0]) }
            })
            .collect();
        let network = Network::new(vec![port], flows).unwrap();
        let analysis = Analysis::new(&network).unwrap();
        for expected in case["expected"].as_array().unwrap() {
            let class = usize::try_from(expected["priority"].as_u64().unwrap()).unwrap();
            let server = analysis.network().flows()[class].path[0];
            let curve = RateLatency::new(number(&expected["rate"]), number(&expected["latency"]));
            assert_eq!(analysis.network().servers()[server].service, curve, "{}", case["id"]);
            let least = analysis.least(class).unwrap();
            assert_eq!(least.delay, number(&expected["delay"]), "{}", case["id"]);
        }
    }
}

#[test]
fn deficit_round_robin_latencies_are_met_exactly() {
    for case in of_kind("drr") {
        let part = |name: &str| number(&case[name]);
        let list = |name: &str| case[name].as_array().unwrap().iter().map(number);
        let flows: Vec<service::DrrFlow> = list("quanta")
            .zip(list("L_max"))
            .map(|(quantum, frame)| service::DrrFlow { quantum, frame })
            .collect();
        let index = usize::try_from(case["flow"].as_u64().unwrap()).unwrap();
        let drr = service::drr(&part("link_rate"), &flows, index).unwrap();
        assert_eq!(drr.boyer.rate, part("reserved_rate"));
        assert_eq!(drr.stiliadis_varma.latency, part("sv_latency"));
        assert_eq!(drr.boyer.latency, part("boyer_latency"));
        let source = Envelope::token_bucket(part("rate"), part("burst"));
        assert_eq!(source.delay(&drr.stiliadis_varma), Some(part("sv_delay")));
        assert_eq!(source.delay(drr.best()), Some(part("boyer_delay")));
    }
}

/// Figures of the sink-tree closed form (backlog at the sink) are published without a second
/// computation. Where every server sends all its flows on to one server, the total flow analysis
/// over groups is that closed form.
#[test]
fn sink_tree_backlogs_are_met_exactly() {
    let mut figures = 0;
    for case in of_kind("network") {
        let network = network(&case, Multiplexing::Blind);
        let analysis = Analysis::new(&network).unwrap();
        for expected in case["expected"].as_array().unwrap() {
            if expected["cross_traffic"] != "sinktree" {
                continue;
            }
            let flow = flow_index(&network, &expected["flow"]);
            let bound = analysis.bound(flow, Method::Tfa(CrossTraffic::PUBLISHED));
            let sink = bound.steps.last().unwrap();
            let backlog = sink.arrival.as_ref().unwrap().backlog(sink.service.as_ref().unwrap());
            let context = format!("{} {expected}", case["id"]);
            assert_eq!(backlog, Some(number(&expected["backlog"])), "{context}");
            figures += 1;
        }
    }
    println!("{figures} figures");
    assert!(figures > 0);
}
