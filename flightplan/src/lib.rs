//! flightplan
