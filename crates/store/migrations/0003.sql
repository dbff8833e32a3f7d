-- What the host knows of an agent that it runs, as one document; absent for the others.
ALTER TABLE agents ADD COLUMN managed TEXT;
