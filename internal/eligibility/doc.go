// Package eligibility decides whether an instance can serve, and says why. It
// is a fold over sealed ticks of evidence: no clock, no I/O, no goroutine, and
// only integers, so that the same start and the same ticks give the same
// verdict on every machine. Read [State] first, then [State.Judge], whose list
// of rules is the specification; testdata holds scenarios as text.
//
//	           first good look                  a rule against it
//	starting ──────────────────► in rotation ────────────────────► out
//	(unknown)                    eligible, degraded,               ineligible
//	                             unknown (nobody sees it)             │
//	                                  ▲        clean for long enough, │
//	                                  └──── a trial where outcomes ◄──┘
//	                                        had put it out
//
// Coming back always takes longer than leaving. More than four changes by
// evidence in ten minutes are a quarantine.
//
// What it never does: compare instances. That a failure is the caller's or
// everyone's is said by the evidence itself, which carries how many failures
// the same reporters would expect of the siblings ([Outcomes.Expected]). The
// fraction guard comes after, in the view.
package eligibility
