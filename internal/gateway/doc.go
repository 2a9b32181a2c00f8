// Package gateway is the role that callers' requests come to. It routes each by
// its host name through the table in force to a request group, lets it wait
// there for a lease (package lease holds the rules), and proxies it to the
// leased instance over connections that belong to that one process. Hosts dial
// its poll service and hand it credits. It decides nothing about who may answer:
// the table does, and views choose among these. Read [Config] and [Gateway] first; a request's way is
// entry.go, room.go, attempt.go, respond.go.
package gateway
