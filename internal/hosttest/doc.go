// Package hosttest holds what every implementation of the port to hosts must
// do, and a fleet in memory that does it. Read [Run] for the promises, [Sim]
// for the fleet. It belongs to tests and harnesses alone.
package hosttest
