// Package host is the host role: it runs instances as processes, keeps them
// running, tells the leader what became of them and hands their free slots to
// gateways as credits. What it was assigned is on its disk, so that neither a
// lost control plane nor its own death changes what runs. It decides nothing
// about where traffic goes. Read [Host] first, then the slot and the instance.
package host
