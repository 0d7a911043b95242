//! Hand-written loops whose speed is known by arithmetic: the yardsticks of the calibration. (In work.)
