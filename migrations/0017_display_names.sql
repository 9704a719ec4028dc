-- How visitors of public pages see a member: chosen by the console, and public. Null = his userid.
ALTER TABLE members ADD COLUMN display_name text CHECK (char_length(display_name) BETWEEN 1 AND 32);
