// Package view is the pure half of everything below the assembler: a view, its
// versions, its deltas, its digest, and the guards that a client keeps. It has
// no clock, no I/O and no goroutine, and imports the standard library only.
// The first view is the route table that gateways hold; read [Table] first,
// then [Held], which is a client's half.
//
// The client's rules, kept by [Held.Take]:
//
//   - Within one incarnation versions never fall, and neither do epochs. What
//     comes under an older epoch is refused. What comes under the held number
//     with another nonce is refused too and reported: both leaders believe in
//     one number, and the one that is shown ours takes the next above.
//   - Another incarnation is taken over an authenticated stream only, as a full
//     table, and is reported. The marks of earlier ones are remembered, so that
//     a leader who was succeeded there is still refused when it comes back.
//     An incarnation that was left is left for good by the leaders heard there:
//     only a higher epoch of it, of one that took office since, is a return.
//   - A live entry ends by being named: by a newer entry or by a tombstone. An
//     entry that is merely absent (from a full table, also of another
//     incarnation, or dropped while no tombstone was held) stays served, is an
//     orphan, and is reported until the plane names its service. So neither an
//     emptied store nor a new one empties a gateway. A service without splits
//     is named: scaled to zero explains itself.
//   - An entry that the client refuses is reported by name; the one held before
//     stays served, and the rest of the table is applied.
//   - A kept entry (orphan, or held in place of a refused one) yields the host
//     names that the plane now gives to another service.
//   - Version and digest of what was told are acknowledged, with the objections
//     beside them: what is served is told and objections together.
package view
