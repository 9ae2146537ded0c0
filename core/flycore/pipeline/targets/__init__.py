"""The targets that a call would act on (window, page, file), read before a person is asked."""
