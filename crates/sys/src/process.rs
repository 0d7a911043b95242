//! Processes: launch, signals, limits. (In work.)
