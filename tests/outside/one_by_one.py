"""An engine of a user's own, in one short file: it runs tasks one by one and counts them."""


class Done:
    def __init__(self, value):
        self._value = value

    def result(self):
        return self._value


class OneByOne:
    def __init__(self):
        self.tasks = 0

    def submit(self, function, /, *arguments):
        self.tasks += 1
        return Done(function(*arguments))
