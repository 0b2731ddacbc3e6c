//! What each policy asks for, by table.
