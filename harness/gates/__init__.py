"""Gates: is a trial as good as its accepted baseline?"""
