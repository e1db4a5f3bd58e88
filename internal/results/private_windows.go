package results

// writableByOthers: the mode of a file says nothing about others on Windows, where the cache of a user is the user's.
const writableByOthers = 0
