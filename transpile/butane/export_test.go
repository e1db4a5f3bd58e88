package butane

// PlacesOf gives every key and every item of a document its line in `a.bu`, as an overlay would.
var PlacesOf = placesOf
