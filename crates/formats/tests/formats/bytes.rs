//! The same graph has the same bytes, today and always: whoever changes a writer changes these numbers, and runs `scripts/verify-models`.

use formats::{
    element::ElementType::{Bool, Fp32, Int32, Text},
    format::Format::{self, GraphDef, Onnx, OpenVino, SavedModel, TorchScript},
    formulas::{Formula, Options, graph},
    networks::{self, Network},
};

const STATEFUL: Formula = Formula::Stateful { initial: 7 };

/// How many bytes the files of a graph have together, and their CRC; none where the format rejects it.
fn written(format: Format, formula: Formula, options: &Options) -> Option<(usize, u32)> {
    let graph = graph(formula, options).expect("it has a graph");
    let bytes =
        || format.files(&graph).ok().map(|files| files.into_iter().flat_map(|file| file.bytes).collect::<Vec<_>>());
    assert_eq!(bytes(), bytes(), "{format:?} {formula:?} twice");
    bytes().map(|bytes| (bytes.len(), crc32fast::hash(&bytes)))
}

#[test]
fn the_plainest_models_have_the_bytes_that_they_had() {
    let all = Format::ALL.map(|format| (format, written(format, Formula::Implicit, &Options::default())));
    assert_eq!(
        all,
        [
            (Onnx, Some((646, 2_062_450_446))),
            (OpenVino, Some((5627, 1_262_138_510))),
            (SavedModel, Some((1187, 3_193_566_798))),
            (GraphDef, Some((845, 760_733_682))),
            (TorchScript, Some((1173, 3_258_509_771))),
        ]
    );
}

#[test]
fn models_with_state_have_the_bytes_that_they_had() {
    let options = Options { element: Fp32, width: None, control: Bool, corrid: Some(Int32), ..Options::default() };
    let all = Format::ALL.map(|format| (format, written(format, STATEFUL, &options)));
    assert_eq!(
        all,
        [
            (Onnx, None),
            (OpenVino, Some((14_266, 3_867_112_342))),
            (SavedModel, Some((2886, 1_969_131_503))),
            (GraphDef, None),
            (TorchScript, Some((1999, 2_150_660_068))),
        ]
    );
}

#[test]
fn models_of_texts_have_the_bytes_that_they_had() {
    let options = Options { element: Text, batch: None, width: Some(3), corrid: Some(Text), ..Options::default() };
    let all = Format::ALL.map(|format| (format, written(format, Formula::ImplicitWithInitialState, &options)));
    assert_eq!(
        all,
        [
            (Onnx, Some((3201, 3_747_626_168))),
            (OpenVino, None),
            (SavedModel, Some((4374, 846_669_669))),
            (GraphDef, Some((4056, 4_049_768_978))),
            (TorchScript, None),
        ]
    );
}

#[test]
fn models_of_lists_of_texts_have_the_bytes_that_they_had() {
    let options = Options { element: Text, batch: None, width: None, ..Options::default() };
    assert_eq!(written(TorchScript, STATEFUL, &options), Some((2895, 2_258_732_117)));
}

#[test]
fn networks_have_the_bytes_that_they_had() {
    let all = [Network::Gru, Network::Lstm, Network::Conv, Network::TwoState].map(|network| {
        let written = [true, false].map(|batches| {
            let graph = networks::graph(network, batches, 16).expect("it has a graph");
            let bytes = &Onnx.files(&graph).expect("ONNX has it")[0].bytes;
            (bytes.len(), crc32fast::hash(bytes))
        });
        (network, written)
    });
    assert_eq!(
        all,
        [
            (Network::Gru, [(22_249, 170_920_890), (22_597, 3_230_114_088)]),
            (Network::Lstm, [(29_037, 686_336_791), (29_565, 3_522_732_433)]),
            (Network::Conv, [(4364, 888_441_086), (4709, 31_484_706)]),
            (Network::TwoState, [(3688, 3_183_565_441), (4299, 375_822_204)]),
        ]
    );
}

#[test]
fn another_graph_has_other_bytes() {
    for format in Format::ALL {
        let plain = written(format, Formula::Implicit, &Options::default());
        assert_ne!(plain, written(format, Formula::Stateless, &Options::default()), "{format:?}");
        assert_ne!(
            plain,
            written(format, Formula::Implicit, &Options { control: Bool, ..Options::default() }),
            "{format:?}"
        );
    }
}
