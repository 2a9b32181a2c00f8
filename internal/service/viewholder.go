package service

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// ViewHolder is who picks by a service's view, as it last said.
type ViewHolder struct {
	Role, Name string
	Connected  bool
	// Version that it last acknowledged, or said that it holds; zero is none.
	Version view.Version
	// Current says that this is the newest.
	Current bool
	// Objection says why it picks by something else than was sent.
	Objection string
}

// Subscriber is who holds views, as it last said.
type Subscriber struct {
	Role, Name, Session, Library string
	Connected                    bool
	// Silent is how long nothing was heard.
	Silent time.Duration
	// Missing are features of views that it does not know.
	Missing []string
	// Views that it holds, and how many of them are not the newest.
	Views, Behind int
}
