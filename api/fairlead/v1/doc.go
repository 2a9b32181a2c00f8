// Package fairleadv1 is the generated code of the wire contracts: what the
// command line, the roles and other people's programs say to Fairlead. It holds
// no rule. Read operator.proto first, then view.proto, host.proto and poll.proto.
package fairleadv1
