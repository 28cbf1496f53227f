//! stub
/// stub
pub fn explained(_name: &str) -> Option<&'static str> {
    None
}
/// stub
pub fn explained_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::empty()
}
