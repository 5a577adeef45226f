// Control-C and SIGTERM as a question that the measuring loop asks between two tokens.
#pragma once

namespace scaling {

/// Thrown by check_interrupt(); run_experiment turns it into exit status 130.
struct Interrupted {};

/// From now on the first SIGINT or SIGTERM is remembered; a second one ends the program at once.
void watch_interrupts();
bool interrupt_arrived();
/// Throws Interrupted if a signal has arrived.
void check_interrupt();

}  // namespace scaling
