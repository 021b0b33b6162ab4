mkdir "$TARGET"/copy.$$ && cp $SOURCES "$TARGET"/copy.$$/ && mv -f "$TARGET"/copy.$$/* "$TARGET"/ && rmdir "$TARGET"/copy.$$
