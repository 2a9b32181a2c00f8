// Package evidence takes in what witnesses say of instances and seals it into
// ticks of a second, which eligibility folds. Read [Ingest] first, then [Tick].
//
// Three classes come in, and are never merged: probes, the workload's own word,
// and what callers saw. Each is attributed to an identity; what is not one's
// own to give is discarded and counted by reason, never weighted down.
//
// Its state grows with instances plus reporters, never with their product: a
// reporter's results are capped, compared with what the same reporter saw of
// the siblings, and added up at once. A sealed tick never changes, and what
// comes late counts where it came. Ticks are sparse: exact where anything
// failed, one row in ten seconds for clean running.
//
// It decides nothing about instances, and has no clock: whoever drives it says
// when a second is over.
package evidence
