//! The messages of TensorFlow that small graphs need. The numbers are the format's.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// `SavedModel`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedModel {
    /// The revision of the format.
    #[prost(int64, tag = "1")]
    pub(super) schema_version: i64,
    #[prost(message, repeated, tag = "2")]
    pub(super) meta_graphs: Vec<MetaGraph>,
}

/// `MetaGraphDef`: a graph with what it is for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetaGraph {
    #[prost(message, optional, tag = "1")]
    pub(super) meta_info: Option<MetaInfo>,
    #[prost(message, optional, tag = "2")]
    pub(super) graph: Option<Graph>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(super) signatures: BTreeMap<String, Signature>,
}

/// `MetaGraphDef.MetaInfoDef`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct MetaInfo {
    /// Readers choose a graph by these.
    #[prost(string, repeated, tag = "4")]
    pub(super) tags: Vec<String>,
}

/// `SignatureDef`: what goes in and comes out, by the names that callers know.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Signature {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) inputs: BTreeMap<String, TensorInfo>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(super) outputs: BTreeMap<String, TensorInfo>,
    #[prost(string, tag = "3")]
    pub(super) method: String,
}

/// `TensorInfo`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorInfo {
    /// A node, and behind a colon which of its outputs.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) shape: Option<Shape>,
}

/// `GraphDef`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<Node>,
    #[prost(message, optional, tag = "4")]
    pub(super) versions: Option<Versions>,
}

/// `VersionDef`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Versions {
    /// The revision of the operations' meanings that the graph was written for.
    #[prost(int32, tag = "1")]
    pub(super) producer: i32,
}

/// `NodeDef`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) op: String,
    /// The nodes whose results it takes, and with `^` in front those that have to be done before it.
    #[prost(string, repeated, tag = "3")]
    pub(super) input: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub(super) attr: BTreeMap<String, Attribute>,
}

/// `AttrValue`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(oneof = "Given", tags = "2, 3, 5, 6, 7, 8")]
    pub(super) given: Option<Given>,
}

/// What an attribute is.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Given {
    #[prost(bytes, tag = "2")]
    Text(Vec<u8>),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(bool, tag = "5")]
    Truth(bool),
    /// A number of `DataType`.
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(Shape),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

/// `TensorProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    #[prost(int32, tag = "1")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<Shape>,
    /// The elements, the least significant byte first, of all but texts.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) content: Vec<u8>,
    /// The elements, of texts.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(super) texts: Vec<Vec<u8>>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(super) dim: Vec<Dimension>,
}

/// `TensorShapeProto.Dim`: -1 where the size is open.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct Dimension {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
}
