//! The scheduler in virtual time.
