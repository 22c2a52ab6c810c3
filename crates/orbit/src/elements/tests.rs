//! Tests of the readers: all formats give the same elements, and no input makes a reader panic or lose a satellite silently.

use super::*;
use crate::shared_data::shared_data;
use proptest::prelude::*;

const TLE: &str = "STARLINK-1008           
1 44714U 19074B   26130.53954372  .00012175  00000+0  24860-3 0  9999
2 44714  53.1540 248.3799 0001603  18.4433 341.6632 15.46620229358384
0 VANGUARD 1
1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753
2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667
";

const CSV: &str = "OBJECT_NAME,OBJECT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,ARG_OF_PERICENTER,MEAN_ANOMALY,EPHEMERIS_TYPE,CLASSIFICATION_TYPE,NORAD_CAT_ID,ELEMENT_SET_NO,REV_AT_EPOCH,BSTAR,MEAN_MOTION_DOT,MEAN_MOTION_DDOT
VANGUARD 1,1958-002B,2020-10-13T04:52:48.472320,10.84869164,.1845686,34.2443,225.5254,162.2516,205.2356,0,U,5,999,21814,-.22483E-4,-1.6E-7,0
";

const JSON: &str = r#"[{"OBJECT_NAME": "VANGUARD 1", "OBJECT_ID": "1958-002B", "EPOCH": "2020-10-13T04:52:48.472320", "MEAN_MOTION": 10.84869164,
"ECCENTRICITY": "0.1845686", "INCLINATION": 34.2443, "RA_OF_ASC_NODE": 225.5254, "ARG_OF_PERICENTER": 162.2516, "MEAN_ANOMALY": 205.2356,
"NORAD_CAT_ID": "5", "BSTAR": -0.000022483, "MEAN_MOTION_DOT": -1.6e-7}]"#;

const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ndm><omm id="CCSDS_OMM_VERS" version="2.0"><header><CREATION_DATE/><ORIGINATOR/></header><body><segment>
<metadata><OBJECT_NAME>VANGUARD 1</OBJECT_NAME><OBJECT_ID>1958-002B</OBJECT_ID><CENTER_NAME>EARTH</CENTER_NAME>
<REF_FRAME>TEME</REF_FRAME><TIME_SYSTEM>UTC</TIME_SYSTEM><MEAN_ELEMENT_THEORY>SGP4</MEAN_ELEMENT_THEORY></metadata>
<data><meanElements><EPOCH>2020-10-13T04:52:48.472320</EPOCH><MEAN_MOTION>10.84869164</MEAN_MOTION><ECCENTRICITY>.1845686</ECCENTRICITY>
<INCLINATION>34.2443</INCLINATION><RA_OF_ASC_NODE>225.5254</RA_OF_ASC_NODE><ARG_OF_PERICENTER>162.2516</ARG_OF_PERICENTER>
<MEAN_ANOMALY>205.2356</MEAN_ANOMALY></meanElements><tleParameters><NORAD_CAT_ID>5</NORAD_CAT_ID><BSTAR>-.22483E-4</BSTAR></tleParameters></data>
</segment></body></omm></ndm>
"#;

fn error_of(text: &str) -> String {
    match read_elements(text.as_bytes(), "FILE") {
        Ok(elements) => panic!("accepted: {elements:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn two_and_three_line_elements_are_read() {
    let elements = read_elements(TLE.as_bytes(), "FILE").unwrap();
    assert_eq!(elements.len(), 2);
    assert_eq!((elements[0].name.as_str(), elements[0].norad_id), ("STARLINK-1008", 44714));
    assert_eq!(elements[1].name, "VANGUARD 1", "the catalogue's \"0 \" is not part of the name");
    assert_eq!(elements[0].designator.as_deref(), Some("2019-074B"));
    assert!((elements[0].mean_motion_rev_day - 15.466_202_29).abs() < 1e-12);
    assert!((elements[0].bstar_per_er - 2.4860e-4).abs() < 1e-15);
    // Day 130.53954372 of 2026: 10 May, 12:56:56.577408.
    assert_eq!(elements[0].epoch, Utc(1_778_417_816_577_408_000));
    let bare = TLE.lines().filter(|l| l.starts_with("1 ") || l.starts_with("2 ")).collect::<Vec<_>>().join("\r\n");
    let elements = read_elements(bare.as_bytes(), "FILE").unwrap();
    assert_eq!(elements[0].name, "NORAD 44714");
}

#[test]
fn alpha_5_numbers_are_read() {
    let with_id = |id: &str| {
        let line = |text: &str| {
            let body = text.replacen("44714", id, 1);
            let sum =
                body[..68].bytes().map(|b| if b == b'-' { 1 } else { u32::from(b.wrapping_sub(b'0')) * u32::from(b.is_ascii_digit()) });
            format!("{}{}\n", &body[..68], sum.sum::<u32>() % 10)
        };
        TLE.lines().skip(1).take(2).map(line).collect::<String>()
    };
    assert_eq!(read_elements(with_id("A0000").as_bytes(), "FILE").unwrap()[0].norad_id, 100_000);
    assert_eq!(read_elements(with_id("Z9999").as_bytes(), "FILE").unwrap()[0].norad_id, 339_999);
    assert!(error_of(&with_id("I0000")).contains("FILE:1"), "I is not used in Alpha-5");
}

#[test]
fn csv_json_and_xml_give_the_same_elements() {
    let csv = read_elements(CSV.as_bytes(), "FILE").unwrap();
    assert_eq!(csv.len(), 1);
    assert_eq!(csv[0].epoch, Utc(1_602_564_768_472_320_000));
    assert_eq!(csv, read_elements(JSON.as_bytes(), "FILE").unwrap());
    assert_eq!(csv, read_elements(XML.as_bytes(), "FILE").unwrap());
    let with_mark = format!("\u{feff}{CSV}");
    assert_eq!(csv, read_elements(with_mark.as_bytes(), "FILE").unwrap(), "a byte order mark is not part of the data");
}

#[test]
fn errors_name_place_value_and_expectation() {
    let cases = [
        (String::new(), "the file is empty"),
        (" \n\t\n".to_owned(), "the file is empty"),
        ("hello, world\n".to_owned(), "not a format of orbital elements: it begins with \"hello, world\""),
        ("[]".to_owned(), "no satellite in it"),
        ("{\"a\": 1}".to_owned(), "satellite 1 of the file: field NORAD_CAT_ID is missing"),
        ("[1]".to_owned(), "expected an object"),
        (JSON.replace("34.2443", "234.2443"), "field INCLINATION is \"234.2443\"; expected 0 to 180 degrees"),
        (JSON.replace("34.2443", "null"), "field INCLINATION is missing"),
        (JSON.replace("2020-10-13T", "2020-13-13T"), "field EPOCH is"),
        (XML.replace("TEME", "EME2000"), "field REF_FRAME is \"EME2000\"; expected TEME"),
        (CSV.replace("10.84869164", "NaN"), "FILE:2: satellite 1 of the file: field MEAN_MOTION is \"NaN\""),
        (CSV.replace(",0,U,5,", ",0,U,five,"), "field NORAD_CAT_ID is \"five\""),
        (TLE.replace("15.46620229", "15.46620228"), "FILE:3: satellite 1 of the file: checksum 4 of TLE line 2 does not match"),
        (TLE.replace("2 44714", "2 44741"), "FILE:2: satellite 1 of the file: line 1 is of satellite \"44714\" and line 2 of \"44741\""),
        (TLE.lines().filter(|l| !l.starts_with("1 44714")).collect::<Vec<_>>().join("\n"), "a line 2 without its line 1"),
        (
            TLE.lines().filter(|l| !l.starts_with("2 44714")).collect::<Vec<_>>().join("\n"),
            "expected the line 2 that belongs to the line 1 before",
        ),
    ];
    for (text, expected) in cases {
        let message = error_of(&text);
        assert!(message.contains(expected), "expected {expected:?} in {message:?}");
        assert!(!message.contains('\n'), "one line: {message}");
    }
}

#[test]
fn a_file_cut_anywhere_never_loses_a_satellite_silently() {
    // A cut between records gives fewer satellites. A cut anywhere else must be an error.
    for cut in 0..TLE.trim_end().len() {
        if let Ok(elements) = read_elements(&TLE.as_bytes()[..cut], "FILE") {
            assert_eq!(elements.len(), 1, "cut at {cut}");
            let rest = TLE[..cut].split_once("358384").expect("the first satellite is whole").1;
            assert!(rest.trim().is_empty(), "cut at {cut}");
        }
    }
    for cut in 0..XML.trim_end().len() - "</ndm>".len() {
        assert!(read_elements(&XML.as_bytes()[..cut], "FILE").is_err(), "cut at {cut}");
    }
    for cut in 0..JSON.len() {
        assert!(read_elements(&JSON.as_bytes()[..cut], "FILE").is_err(), "cut at {cut}");
    }
}

#[test]
fn too_large_files_are_refused_before_they_are_parsed() {
    let zeros = vec![b' '; MAX_FILE_BYTES + 1];
    assert!(matches!(read_elements(&zeros, "FILE"), Err(OrbitError::TooLarge { .. })));
    let long_value = JSON.replace("VANGUARD 1", &"V".repeat(1000));
    assert!(error_of(&long_value).contains("at most 256 characters"));
}

#[test]
fn hostile_xml_is_refused() {
    let bomb = XML.replace("<ndm>", "<!DOCTYPE ndm [<!ENTITY a \"aaaa\">]><ndm>").replace("VANGUARD 1", "&a;&a;");
    assert!(error_of(&bomb).contains("not valid XML"));
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    assert!(error_of(&deep).contains("no satellite"));
}

#[test]
fn real_catalogues_are_read_completely() {
    let (Some(catalogue), Some(samples)) = (shared_data("serving_satellite_louvain/starlink_gp.tle"), shared_data("sgp4_vectors")) else {
        return;
    };
    let bytes = std::fs::read(catalogue).unwrap();
    assert_eq!(read_elements(&bytes, "starlink_gp.tle").unwrap().len(), 6226);
    for name in ["sample_omm.csv", "sample_omm.xml"] {
        let bytes = std::fs::read(samples.join(name)).unwrap();
        assert_eq!(read_elements(&bytes, name).unwrap()[0].norad_id, 5);
    }
}

/// Error messages show only the start of a long field, in every format.
#[test]
fn long_fields_are_cut_in_error_messages() {
    let long = "9".repeat(100_000);
    for text in [
        format!("OBJECT_NAME,EPOCH,MEAN_MOTION,NORAD_CAT_ID\nA,{long},15,1\n"),
        format!("[{{\"NORAD_CAT_ID\": \"{long}\"}}]"),
        format!("<ndm><omm><NORAD_CAT_ID>{long}</NORAD_CAT_ID></omm></ndm>"),
        format!("[{{\"NORAD_CAT_ID\": {long}x}}]"),
        format!("<{long}></a>"),
        format!("1 25544U {long}\n2 {long}\n"),
        long.clone(),
    ] {
        let message = error_of(&text);
        assert!(message.chars().count() < 500, "{} characters: {message:.200}", message.chars().count());
    }
}

#[test]
fn old_elements_give_a_warning_with_the_expected_error() {
    let elements = read_elements(TLE.as_bytes(), "FILE").unwrap();
    let days = |n: i64| Utc(elements[0].epoch.0 + n * 86_400_000_000_000);
    assert!((age_days(&elements[0], days(7)) - 7.0).abs() < 1e-12);
    assert!(age_warning(&elements[..1], days(1)).is_none());
    let month = age_warning(&elements[..1], days(-31)).expect("a month before the epoch is as bad as after");
    assert!((month.median_age_days - 31.0).abs() < 1e-9 && month.expected_error_km > 500.0);
    assert!(month.to_string().contains("31.0 days") && month.to_string().contains("off by about "));
    let decades = age_warning(&elements[..1], days(20_000)).expect("decades are too many").to_string();
    assert!(decades.contains("off by more than 10,000 km;"), "{decades}");
    assert!((expected_error_km(1.0) - 15.5).abs() < 1e-9 && (expected_error_km(7.0) - 166.0).abs() < 1e-9);
    assert!(age_warning(&[], days(0)).is_none());
}

proptest! {
    #[test]
    fn readers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), format in 0..5_usize) {
        let start: &[u8] = [&b""[..], b"<ndm><omm>", b"[{\"EPOCH\":", b"EPOCH,MEAN_MOTION\n", b"1 00005U "][format];
        let _ = read_elements(&[start, &bytes].concat(), "FILE");
    }

    #[test]
    fn a_changed_byte_gives_an_error_or_other_values_never_a_panic(which in 0..4_usize, at in 0..2000_usize, byte in any::<u8>()) {
        let text = [TLE, CSV, JSON, XML][which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(elements) = read_elements(&bytes, "FILE") {
            for e in elements {
                prop_assert!(e.mean_motion_rev_day.is_finite() && e.eccentricity < 1.0 && e.bstar_per_er.is_finite());
                let _ = crate::propagate::Propagator::new(&e).map(|p| p.state(e.epoch));
            }
        }
    }

    #[test]
    fn a_changed_digit_in_a_tle_is_always_detected(line in 1..3_usize, column in 18..68_usize, digit in b'0'..=b'9') {
        let mut lines: Vec<Vec<u8>> = TLE.lines().take(3).map(|l| l.as_bytes().to_vec()).collect();
        let old = lines[line][column];
        prop_assume!(old.is_ascii_digit() && old != digit);
        lines[line][column] = digit;
        prop_assert!(read_elements(&lines.join(&b'\n'), "FILE").is_err());
    }
}
